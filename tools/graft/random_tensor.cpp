// SPDX-License-Identifier: Apache-2.0
#include "random_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "console.h"

namespace graft {
namespace {

constexpr size_t kBlock = size_t{1} << 14;

/// Standard normal numbers, both of each pair of Box and Muller's.
void fill_normal(Random& random, std::span<double> values) {
  for (size_t i = 0; i < values.size(); i += 2) {
    const double radius = std::sqrt(-2 * std::log(1 - random.unit())), angle = 6.283185307179586 * random.unit();
    values[i] = radius * std::cos(angle);
    if (i + 1 < values.size()) values[i + 1] = radius * std::sin(angle);
  }
}

void write_numbers(TensorData& tensor, int64_t first, std::span<const double> values) {
  if (kind_of(tensor.type()) != DTypeKind::kComplex) return tensor.write_doubles(first, values);
  if (tensor.type() == DType::kComplex64) {
    std::copy(values.begin(), values.end(), tensor.mutable_as<float>().begin() + first);
  } else {
    std::copy(values.begin(), values.end(), tensor.mutable_as<double>().begin() + first);
  }
}

void fill_floats(TensorData& tensor, Random& random) {
  std::array<double, kBlock> values;
  const int64_t parts = kind_of(tensor.type()) == DTypeKind::kComplex ? 2 : 1;
  const int64_t total = parts * tensor.element_count();
  for (int64_t first = 0; first < total; first += kBlock) {
    stop_if_interrupted();
    const std::span<double> block(values.data(), std::min<size_t>(kBlock, static_cast<size_t>(total - first)));
    fill_normal(random, block);
    if (tensor.type() == DType::kFloat8E8M0) {
      for (double& value : block) value = std::exp2(std::round(value));
    }
    write_numbers(tensor, first, block);
  }
}

void fill_integers(TensorData& tensor, Random& random) {
  std::array<int64_t, kBlock> values;
  const bool index_like = tensor.type() == DType::kBool || bit_width(tensor.type()) >= 32;
  for (int64_t first = 0; first < tensor.element_count(); first += kBlock) {
    stop_if_interrupted();
    const auto count = std::min<size_t>(kBlock, static_cast<size_t>(tensor.element_count() - first));
    for (size_t i = 0; i < count; ++i) {
      const uint64_t bits = random.next() >> 32;
      values[i] = static_cast<int64_t>(index_like ? bits & 1 : bits);  // what is written wraps to the type
    }
    tensor.write_integers(first, std::span<const int64_t>(values.data(), count));
  }
}

}  // namespace

TensorData random_tensor(DType type, const std::vector<int64_t>& shape, uint64_t seed) {
  GRAFT_USER_CHECK(type != DType::kString, kUnsupported, "there are no random strings; give a file", "random input");
  TensorData tensor = TensorData::zeros(type, shape);
  Random random(seed);
  if (is_float(type) || kind_of(type) == DTypeKind::kComplex) {
    fill_floats(tensor, random);
  } else {
    fill_integers(tensor, random);
  }
  return tensor;
}

}  // namespace graft
