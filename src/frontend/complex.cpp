// SPDX-License-Identifier: Apache-2.0
#include "frontend/complex.h"

#include <algorithm>

#include <fmt/format.h>

#include "frontend/conversion.h"

namespace graft::frontend {
namespace {

/// Every second component, from `first` on.
template <class Component>
TensorData components(const TensorData& complex, DType type, size_t first) {
  return TensorData::deferred(type, complex.shape(), [complex, type, first] {
    TensorData part = TensorData::zeros(type, complex.shape());
    const auto from = complex.as<Component>();
    const auto to = part.mutable_as<Component>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = from[2 * i + first];
    return part;
  });
}

}  // namespace

std::pair<TensorData, TensorData> parts_of(const TensorData& complex) {
  if (complex.type() == DType::kComplex128) {
    return {components<double>(complex, DType::kFloat64, 0), components<double>(complex, DType::kFloat64, 1)};
  }
  return {components<float>(complex, DType::kFloat32, 0), components<float>(complex, DType::kFloat32, 1)};
}

bool Conversion::is_complex(std::string_view name) const {
  const auto* reference = std::get_if<Reference>(&argument(name).is);
  return reference && (complexes_.contains(reference->value) ||
                       kind_of(foreign_.values[reference->value].type) == DTypeKind::kComplex);
}

Complex Conversion::complex(std::string_view name) const {
  const auto* reference = std::get_if<Reference>(&argument(name).is);
  const auto found = reference ? complexes_.find(reference->value) : complexes_.end();
  if (found == complexes_.end()) {
    const bool stays = reference && is_complex(name);
    const std::string_view reason = stays ? "comes from what stays in the framework" : "is not complex";
    refuse(fmt::format("its argument '{}' {}", name, reason));
  }
  return found->second;
}

void Conversion::by_real_parts(const std::function<void(Conversion&)>& build) {
  part_ = &Complex::real;
  build(*this);
  part_.reset();
}

void Conversion::by_parts(const std::function<void(Conversion&)>& build) {
  if (node_.outputs.size() == 1 && !foreign_.values[node_.outputs[0]].tensor) refuse("a list of complex numbers");
  std::vector<ValueId> parts[2];
  for (size_t i = 0; i < 2; ++i) {
    part_ = i == 0 ? &Complex::real : &Complex::imaginary;
    results_.clear();
    build(*this);
    parts[i] = std::move(results_);
  }
  part_.reset();
  results_.clear();
  const bool both = !parts[0].empty() && parts[0].size() == parts[1].size();
  if (!both || std::ranges::count(parts[0], kNoValue) > 0) refuse("results that are no tensors of complex numbers");
  std::vector<Complex> results;
  for (size_t i = 0; i < parts[0].size(); ++i) results.push_back({parts[0][i], parts[1][i]});
  give_complex(std::move(results));
}

}  // namespace graft::frontend
