// SPDX-License-Identifier: Apache-2.0
// Slices, orders and shapes, as several families of rows build them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "frontend/conversion.h"

namespace graft::aten {

/// The end of a slice that goes as far as there is something.
inline constexpr int64_t kToTheEnd = INT64_MAX;

/// Every step-th element between bounds along an axis.
ValueId sliced(frontend::Conversion& c, ValueId x, int64_t axis, int64_t begin, int64_t end, int64_t step = 1);
/// An axis where torch counts what has no axes as having one, as most of its operators do.
int64_t wrapped_axis(const frontend::Conversion& c, int64_t given, int rank);
/// The axes in another order; they may be negative.
ValueId transposed(frontend::Conversion& c, ValueId x, std::vector<int64_t> order);
/// One-dimensional tensors behind each other.
ValueId joined(frontend::Conversion& c, std::vector<ValueId> parts);
/// The sizes of axes begin .. end - 1.
ValueId sizes(frontend::Conversion& c, ValueId x, int64_t begin, int64_t end = kToTheEnd);
/// Zeros that a row fills in; refuses more than 2^24 of them, which no network's tables have.
TensorData table(frontend::Conversion& c, DType type, const std::vector<int64_t>& shape);
/// An argument that has indices, as i64; refuses what has none.
ValueId indices(frontend::Conversion& c, std::string_view name);
/// What a function of maps with a batch makes of one that may lack it: `axes` are those of space, and the channels'.
template <class Function>
ValueId with_batch(frontend::Conversion& c, ValueId x, int axes, const Function& function) {
  if (c.rank_of(x) == axes + 1) return function(x);
  if (c.rank_of(x) != axes) c.refuse("an input of another number of axes");
  return c.add("Squeeze", {function(c.add("Unsqueeze", {x, c.integers_constant({0})})), c.integers_constant({0})});
}

}  // namespace graft::aten
