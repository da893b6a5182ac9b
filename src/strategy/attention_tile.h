// SPDX-License-Identifier: Apache-2.0
// What the lowerings of attention share: a grid point's tile of queries, the loop over tiles of keys, and expressions
// of the region turned into ones over its buffers.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "fuse/attention.h"
#include "strategy/attention.h"
#include "tile/builder.h"

namespace graft::tile {

class AttentionTile {
 public:
  /// All arguments outlive the object.
  AttentionTile(const Region& region, const AttentionForms& forms, const AttentionSchedule& schedule,
                const Target& target);

 protected:
  using Replacements = std::vector<std::pair<int, Expr>>;

  const graft::Axis& key_axis() const { return forms_.weighted->reduced[0]; }
  const graft::Axis& value_axis() const { return forms_.weighted->axes.back(); }
  const graft::Axis& depth_axis() const { return forms_.scores->reduced[0]; }

  /// select(c, select(d and e, x, -inf), -inf) -> c, d, e; `logits` becomes x.
  static std::vector<Expr> take_conditions(Expr& logits);
  /// How many of the first keys the query `row` sees, when the logits of all others are minus infinity: those of
  /// select(key <= f(query), ..., -inf) with f growing. Null when it may see all.
  Expr keys_seen(const Expr& row) const;
  /// key <= f(query), key < f(query) -> how many keys the query `row` sees; null for other conditions.
  Expr key_limit(const Expr& condition, const Expr& row) const;

  void make_grid();
  /// The loop over tiles of keys that some query of the tile sees; from now on `key_begin_` is a tile's first key.
  For key_loop();

  /// Rows and columns of the tile that there are.
  Axis row_axis() const;
  Axis column_axis() const;

  /// What region variables are at local row `i` and, for the axis `key`, local column `j`.
  Replacements at(const Expr& row, const Expr& key_variable = {}, const Expr& column = {}) const;
  /// Region expression -> buffers; loads of the region's own tensors read the tiles at (row, column).
  Expr convert(const Expr& e, const Replacements& replacements, const Expr& row, const Expr& column) const;
  Expr load(int buffer, const std::vector<Expr>& indices) const { return make_load(buffer, type_, indices); }
  bool is_score_tensor(int tensor) const;

  /// buffer[i] = value(i) for the rows of `i`.
  void add_row_map(Body& body, const Axis& i, int buffer, const std::function<Expr(const Expr&)>& value) const;
  /// buffer[i] = fold of scores[i, j] over j.
  void add_row_reduce(Body& body, const Axis& i, const Axis& j, int buffer, Intrinsic combine) const;
  /// fragment[i, j] = value
  void add_constant(const Axis& i, const Axis& j, int fragment, DType type, double value);
  void add_result(const Compute& out, const Expr& value);

  Expr minus_infinity() const;

  const Region& region_;
  const AttentionForms& forms_;
  const AttentionSchedule& schedule_;
  const Target& target_;
  ProgramBuilder builder_;
  bool on_gpu_;
  Replacements fixed_;  ///< what the grid gives: the axes before the queries
  Size row_step_, rows_;
  Expr row_begin_, key_begin_;
  DType type_;  ///< of scores and sums
  int scores_ = -1, largest_ = -1, tile_largest_ = -1, rescale_ = -1, sum_ = -1, weighted_ = -1;

 private:
  Expr local(int buffer, const std::vector<Expr>& indices) const { return make_load(-1 - buffer, type_, indices); }
};

/// Attention for blocks of a GPU whose matrix units multiply 16-bit weights and values, the scores being f32.
Program lower_block_attention(const Region& region, const AttentionForms& forms, const AttentionSchedule& schedule,
                              const Target& target);

}  // namespace graft::tile
