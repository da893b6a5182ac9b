// SPDX-License-Identifier: Apache-2.0
// From a distribution to the range that 8 bits represent.
#pragma once

#include <optional>
#include <string_view>

#include "base/dtype.h"

#include "quantize/format.h"
#include "quantize/histogram.h"

namespace graft::quantize {

/// How a range is chosen.
enum class Method : uint8_t {
  kMinMax,      ///< all elements
  kPercentile,  ///< all but a share of 1e-5 of the elements, the outermost of both sides
  kEntropy,     ///< the smallest Kullback-Leibler divergence (TensorRT's and MXNet's), 2,048 bins to 128 levels
  kMse,         ///< the smallest mean square of what rounding and clipping change
};
/// `minmax`, `percentile`, `entropy`, `mse`.
std::string_view name_of(Method method);
std::optional<Method> parse_method(std::string_view name);

/// What 256 codes spread over; low <= 0 <= high.
struct Range {
  double low = 0, high = 0;
  bool operator==(const Range&) const = default;
};

/// The range of a distribution. Deterministic; an empty one, or one of zeros alone, gives [0, 0].
Range choose_range(const Histogram& histogram, Method method);

/// A quantiser: value = (code - zero) * scale, codes being u8, or f8e4m3fn with a power of two and no zero point.
struct Affine {
  float scale = 1;
  int zero = 0;
  DType type = DType::kUint8;
};
/// The quantiser whose codes cover the range; of [0, 0] it has scale 1. Of kInt4, which no activation has, that of
/// kInt8.
Affine quantiser_of(const Range& range, Codes codes = Codes::kInt8);
/// The smallest power of two in which numbers up to `largest` are f8e4m3fn; 1 for 0.
float float8_scale(double largest);
/// The f8e4m3fn next to a number.
double nearest_float8(double value);

/// The mean square of what an affine quantiser changes in elements of this distribution, the middle of each bin
/// standing for its elements.
double mean_square_error(const Histogram& histogram, const Affine& quantiser);

}  // namespace graft::quantize
