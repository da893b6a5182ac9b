// SPDX-License-Identifier: Apache-2.0
// Windows that slide over a tensor: which axis of a result moves with which axis of taps, and an expression of the two
// as one of where it reads.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "expr/region.h"

namespace graft::tile {

/// An axis of the result along which a window slides, and the axis of its taps: the input is read at
/// point * stride + tap * dilation.
struct Slide {
  graft::Axis axis, taps;
  int64_t stride = 1, dilation = 1, count = 1;
};

/// Positions that `points` points side by side read.
int64_t reach(const Slide& slide, int64_t points);

/// The axis among `results` with which `taps` says where a load of `operand` reads; nothing when there is none, or the
/// taps are not of a fixed number.
std::optional<Slide> find_slide(const Expr& operand, const std::vector<graft::Axis>& results, const graft::Axis& taps);

/// The expression with point * stride + tap * dilation of each slide as the given position, or null where it depends
/// on points or taps in another way.
Expr at_positions(const Expr& e, const std::vector<Slide>& slides, const std::vector<Expr>& positions);

}  // namespace graft::tile
