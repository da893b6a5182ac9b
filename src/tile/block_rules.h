// SPDX-License-Identifier: Apache-2.0
// What the lowering for blocks of a GPU looks for in expressions.
#pragma once

#include <vector>

#include "tile/program.h"

namespace graft::tile {

/// The loads of an expression that happen whatever branch a select takes, each node once.
std::vector<Expr> loads_at_every_point(const Expr& e);

/// The number of the axis along which a load from global memory is contiguous, when that is not the last axis and the
/// load changes along the last one too, so that it is worth a tile in a block's memory; else -1.
int axis_of_neighbours(const Program& program, const std::vector<Axis>& axes, const Expr& load);

/// reduce over i < n: select(e + i < m, x, identity) -> over i < min(n, m - e): x, for the first reduced axis.
void shorten_guarded(Reduce& reduce);

}  // namespace graft::tile
