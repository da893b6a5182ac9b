// SPDX-License-Identifier: Apache-2.0
// Whether a tensor agrees with a reference: the one rule for results of runs, passes and tests.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/tensor_data.h"

namespace graft {

/// An element of a float or complex type agrees when |result - reference| <= relative * |reference| + absolute. NaN
/// agrees with NaN, and an infinity with itself. Integers, bools and strings agree when they are equal.
struct Tolerance {
  double relative = 0, absolute = 0;
};

/// What rounding may add up to in a network of moderate depth whose results have this type: `relative` per element,
/// and `absolute` as that share of `magnitude`, the largest magnitude of the reference. Zero for exact types.
Tolerance default_tolerance(DType type, double magnitude);
/// The largest finite magnitude of a tensor of numbers (of the larger part of complex ones); 0 for other types.
double largest_magnitude(const TensorData& tensor);

/// The outcome of a comparison.
struct Comparison {
  int64_t elements = 0;
  int64_t outside = 0;  ///< elements that do not agree
  int64_t first = -1;   ///< the first of them
  int64_t worst = -1;   ///< what differs most in units of its tolerance; NaN or infinity on one side most of all
  double worst_difference = 0;  ///< its |result - reference|
  double largest = 0;           ///< the largest |result - reference| among pairs of finite numbers
  int64_t nan = 0, reference_nan = 0;            ///< elements that are NaN
  int64_t infinite = 0, reference_infinite = 0;  ///< elements that are infinite
  double reference_low = 0, reference_high = 0;  ///< finite numbers of the reference lie between (real parts)

  bool agrees() const { return outside == 0; }
};

/// Compares tensors of one type and shape. `between` is called now and then, and may throw to stop.
Comparison compare(const TensorData& result, const TensorData& reference, const Tolerance& tolerance,
                   const std::function<void()>& between = {});

/// How far a result may be from its reference, as far as a caller chose; the rest is the default of an element type.
struct ToleranceChoice {
  std::optional<double> relative = {}, absolute = {};
  DType rounds_to = DType::kUndefined;  ///< of a network of f32 that computes in this type: its default holds for f32
};

/// A result beside its reference.
struct Judgement {
  bool agrees = false;
  bool compared = false;  ///< false: they differ in type or shape
  bool exact = false;     ///< of a type whose elements have to be equal
  Tolerance allowed;
  Comparison found;
  std::string words;  ///< `agrees`, or `WRONG: ...`, with the counts of NaN and infinities
};

/// Judges a result. Floats of two types are compared in the wider one, with the tolerance of the narrower one.
Judgement judge(const TensorData& result, const TensorData& reference, const ToleranceChoice& choice,
                const std::function<void()>& between = {});

/// One element as text: a number, both parts of a complex one, or a quoted string.
std::string show_element(const TensorData& tensor, int64_t index);
/// `[1, 0, 7]` for the element of that number in row-major order.
std::string index_text(const TensorData& tensor, int64_t index);

}  // namespace graft
