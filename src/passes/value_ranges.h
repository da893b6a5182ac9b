// SPDX-License-Identifier: Apache-2.0
// How large the elements of a region's tensors can be, by the arithmetic of intervals over its expressions.
#pragma once

#include <vector>

#include "expr/region.h"

namespace graft::passes {

/// Bounds of all elements; infinite where nothing is known, or where a value is not a number for some operands.
struct ValueRange {
  double low = 0, high = 0;

  double magnitude() const;
  bool operator==(const ValueRange&) const = default;
};

/// Bounds of each tensor of a region whose inputs are within `inputs` (one per Region::inputs); infinite for those that
/// no form defines. An axis whose size is a symbol counts as 64 elements. Beside intervals it knows two things about
/// rows: an element less the largest one is not positive, and a part of a sum of parts that are not negative is at
/// most 1.
std::vector<ValueRange> value_ranges(const Region& region, const std::vector<ValueRange>& inputs);

}  // namespace graft::passes
