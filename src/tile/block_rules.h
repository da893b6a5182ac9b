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

/// What a thread reads of windows that overlap along two axes, the sliding one and the one beside it.
struct WindowReads {
  int64_t rows = 1, rows_step = 1;        ///< of a window along the sliding axis, and from one window to the next
  int64_t columns = 1, columns_step = 1;  ///< and along the axis beside it
  int64_t places = 1, places_step = 1;    ///< and along the last axis
  int64_t kept = 0;                       ///< elements that all points share for each neighbour, as weights
  bool converts = false;                  ///< elements are narrower than what is computed with
  bool streams = false;                   ///< a row is folded into all windows that it lies in, and not kept for them
};

/// The points that a thread makes at each place of the sliding axis: along the axis beside it, and along the last one.
struct ThreadPoints {
  int64_t besides = 1, vector = 1;
};

/// The points with the fewest instructions for each, as far as registers hold what is read; `bound` points lie along
/// the axis beside, and at most `vector` neighbours can be read at once.
ThreadPoints points_of_thread(const WindowReads& reads, int64_t bound, int64_t vector);

/// The same for streams in a block of so many threads, which make all `bound` points of all `row` elements at once.
ThreadPoints points_of_block(const WindowReads& reads, int64_t bound, int64_t vector, int64_t row, int64_t threads);

/// The points of a thread down the sliding axis of `extent` points, along which it streams, at most `most`: few rows
/// are read twice and few points lie beyond the end, as far as its instructions, written out, stay few.
int64_t points_down(const WindowReads& reads, const ThreadPoints& points, int64_t extent, int64_t most);

/// Registers of a thread that streams, with so many rows on their way.
int64_t registers_of_stream(const WindowReads& reads, const ThreadPoints& points, int64_t ahead);

}  // namespace graft::tile
