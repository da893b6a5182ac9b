// SPDX-License-Identifier: Apache-2.0
// What values an index can take, so that its arithmetic is done in 32 bits where that is enough.
#pragma once

#include <cstdint>
#include <vector>

#include "expr/expr.h"

namespace graft::cuda {

/// All values from `low` to `high`; the default is: anything.
struct Range {
  int64_t low = INT64_MIN, high = INT64_MAX;
  bool fits_int() const { return low >= INT32_MIN && high <= INT32_MAX; }
  bool operator==(const Range&) const = default;
};

/// The range of an intrinsic over i64 operands in these ranges; anything where nothing is known or it may wrap.
Range range_of(Intrinsic intrinsic, const std::vector<Range>& operands);

}  // namespace graft::cuda
