// SPDX-License-Identifier: Apache-2.0
// The left operand of a convolution's tile: the part of the input that lies under the tile's windows, copied once.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fuse/contraction.h"
#include "tile/program.h"
#include "strategy/window_slides.h"

namespace graft::tile {

/// An axis of rows that runs inside of a tile, over `most` points at most; the other axes of rows stand still there.
struct MovingAxis {
  graft::Axis axis;
  int64_t most = 1;
};

/// A scratch tensor with an axis for each axis of rows that no taps move along, and for each reduced axis: positions
/// that its taps read, or its elements. The last is padded with zeros to a multiple of `multiple`.
class WindowCopy {
 public:
  using Replacements = std::vector<std::pair<int, Expr>>;

  WindowCopy(const Contraction& contraction, std::vector<MovingAxis> moving, int64_t multiple);

  /// Why the operand is not read by windows that move along the rows of a tile, or an empty text.
  std::string why_not() const;
  Shape shape() const;
  /// The axes and the value of the copy, for `rows` that begin at `begins`; `standing` says where the others of rows
  /// stand. The value's variables are added to `at`.
  std::pair<std::vector<Axis>, Expr> copy(const std::vector<Axis>& rows, const std::vector<Expr>& begins,
                                          const Replacements& standing, Replacements& at) const;
  /// Where the copy holds what is read at a point of `rows`, reduced axes being what `at` says.
  std::vector<Expr> indices(const std::vector<Axis>& rows, const Replacements& at) const;

 private:
  const Slide* slide_of(const graft::Axis& reduced) const;
  /// The place among the moving axes of the one that the slide moves along, or -1.
  int moving_along(const Slide& slide) const;
  Size padded_extent() const;

  const Contraction contraction_;
  const std::vector<MovingAxis> moving_;
  const int64_t multiple_;
  std::vector<Slide> slides_;
  std::vector<size_t> still_;  ///< moving axes that the operand reads at their own points
};

}  // namespace graft::tile
