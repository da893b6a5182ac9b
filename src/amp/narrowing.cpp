// SPDX-License-Identifier: Apache-2.0
#include "amp/narrowing.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/convert.h"
#include "base/error.h"

namespace graft::amp {
namespace {

/// Half a unit in the last place of 1: the largest relative error of one rounding.
double unit_roundoff(DType low) {
  switch (low) {
    case DType::kFloat16:
      return 0x1p-11;
    case DType::kBFloat16:
      return 0x1p-8;
    default:
      throw Error(ErrorKind::kInternal, "constants are converted to f16 or bf16", std::string(name_of(low)));
  }
}

constexpr int64_t kBlock = 4096;

}  // namespace

std::string conversion_fault(const TensorData& data, DType low) {
  const double roundoff = unit_roundoff(low);
  double squares = 0, errors = 0, largest = 0;
  std::vector<double> values(kBlock);
  for (int64_t first = 0; first < data.element_count(); first += kBlock) {
    const auto count = static_cast<size_t>(std::min(kBlock, data.element_count() - first));
    data.read_doubles(first, std::span(values).first(count));
    for (size_t i = 0; i < count; ++i) {
      const double x = values[i];
      if (!std::isfinite(x)) continue;  // infinities and NaN are in every type
      const double rounded = round_to_float(low, x);
      if (!std::isfinite(rounded)) {
        return fmt::format("a constant of it holds {:.6g}, beyond the largest {}", x, name_of(low));
      }
      largest = std::max(largest, std::fabs(x));
      squares += x * x;
      errors += (rounded - x) * (rounded - x);
    }
  }
  // One rounding errs by at most `roundoff` of each element; beyond twice that, underflow has taken its part.
  if (std::sqrt(errors) <= 2 * roundoff * std::sqrt(squares)) return "";
  return fmt::format("a constant of it, at most {:.3g}, is too small for {}", largest, name_of(low));
}

TensorData converted(const TensorData& data, DType low) {
  TensorData result = TensorData::zeros(low, data.shape());
  const std::span<const float> values = data.as<float>();
  const std::span<uint16_t> bits = result.mutable_as<uint16_t>();
  if (low == DType::kFloat16) {
    floats_to_f16(values, bits.data());
  } else {
    floats_to_bf16(values, bits.data());
  }
  return result;
}

}  // namespace graft::amp
