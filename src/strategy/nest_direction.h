// SPDX-License-Identifier: Apache-2.0
// Which way the general strategy goes through a region: lowering follows it, and the cost model expects it.
#pragma once

#include <set>
#include <vector>

#include "expr/region.h"

namespace graft::tile {

/// Elements from lane to lane that vectors side by side still have, on a CPU.
constexpr int64_t kNearLanes = 4;

struct NestDirection {
  /// Reductions go down columns: lanes are along the last common axis.
  bool columns = false;
  /// Loads of inputs by reductions that vary along fewer common axes than others: weights of a window, read again at
  /// every point, which may lie in any way.
  std::set<const ExprNode*> weights;
};

/// Reductions go down columns where what they read most of lies side by side along the last common axis, and not along
/// what they sum over. The rows of a window lie side by side too, but are too short to go along: those of less than two
/// vectors of `lanes` elements do not count (0: all do).
NestDirection nest_direction(const Region& region, const std::vector<graft::Axis>& common, int64_t lanes);

}  // namespace graft::tile
