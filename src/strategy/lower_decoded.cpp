// SPDX-License-Identifier: Apache-2.0
// Products of weights that are stored as codes: panels of columns lie side by side, and each grid point makes one.
// Few rows multiply codes as they come from memory and scale the sums of a block; many rows share what was decoded to
// scratch. A size of the run decides between them.
#include "strategy/decode.h"

#include <algorithm>

#include <fmt/format.h>

#include "fuse/decoded_operand.h"
#include "fuse/rewrite_region.h"
#include "strategy/contract_tiles.h"

namespace graft::tile {
namespace {

/// Whether every load of the operand goes along the reduced axes from number `first` on as along one axis.
bool runs_as_one(const Expr& operand, const std::vector<graft::Axis>& k, size_t first) {
  if (operand->kind != ExprKind::kLoad || operand->args.empty()) return false;
  for (size_t d = 0; d < operand->args.size(); ++d) {
    const auto form = affine(operand->args[d]);
    if (!form) return false;
    Size step = d + 1 == operand->args.size() ? 1 : 0;
    for (size_t i = k.size(); i-- > first;) {
      if (!(form->coefficient(k[i].variable->variable) == step)) return false;
      step = step * k[i].extent;
    }
  }
  return true;
}

class DecodedLowering : ContractTiles {
 public:
  DecodedLowering(const Region& region, const Layouts& layouts, const DecodeSchedule& schedule, const Target& target)
      : ContractTiles(region, layouts, target), schedule_(schedule) {}

  Lowered run() {
    if (std::string reason = analyse(); !reason.empty()) return reason;
    rows_ = tile_rows(chunk());
    columns_ = tile_columns(schedule_.n, false);
    if (!rows_.whole.empty()) return "rows of several axes make a tile";
    rows_.step = chunk();
    make_grid();
    place_tiles(Size(schedule_.n));
    lower_grid_point();
    return builder_.finish(region_.name);
  }

 private:
  std::string analyse() {
    if (std::string reason = find_main(); !reason.empty()) return reason;
    const auto operand = decoded_operand(contraction_);
    if (!operand) return "the right operand is no code";
    operand_ = *operand;
    if (main_->lift[0]->type != DType::kFloat32) return "the sums are not f32";
    lanes_ = std::max<int64_t>(1, target_.vector_bits / 32);
    if (schedule_.n % lanes_ != 0) return "a panel is no whole number of vectors";
    bool in_panels = true;
    for_each(contraction_.b, [&](const Expr& e) {
      if (e->kind != ExprKind::kLoad) return;
      const bool lies = e->tensor < static_cast<int>(layouts_.size()) && layouts_[e->tensor].has_value();
      in_panels = in_panels && lies && layouts_[e->tensor]->lanes == schedule_.n && layouts_[e->tensor]->pack == 1;
    });
    if (!in_panels) return "the right operand does not lie in panels";
    return why_not_on_tiles();
  }

  void make_grid() {
    fix(contraction_.batch);
    fix(rows_.outer);
    fix(columns_.outer);
    column_tile_ = columns_.tiles.is(1) ? make_index(0) : builder_.add_grid(columns_.tiles);
    if (!rows_.split) return;
    const Size chunks = max(ceil_div(rows_.split->extent, chunk()), Size(1));
    chunk_ = chunks.is(1) ? make_index(0) : builder_.add_grid(chunks);
  }

  /// Rows of one grid point: whole tiles.
  int64_t chunk() const { return std::max(schedule_.m, schedule_.m_chunk / schedule_.m * schedule_.m); }

  /// The expression at a point of a pass, its loads of weights turned to their panels.
  Expr in_panels(const Expr& e, const Replacements& at, const Expr& lane) const {
    return transform(substitute(e, at), [&](const Expr& node) -> Expr {
      if (node->kind != ExprKind::kLoad) return {};
      const PanelLayout& layout = *layouts_[node->tensor];
      std::vector<Expr> indices(node->args.begin(), node->args.begin() + layout.keep);
      indices.push_back(column_tile_);
      for (const int d : layout.rest) indices.push_back(node->args[static_cast<size_t>(d)]);
      indices.push_back(lane);
      return make_load(builder_.buffer_of(node->tensor), node->type, std::move(indices));
    });
  }

  void lower_grid_point() {
    const Expr rows = rows_.split ? make_size(rows_.split->extent) : make_index(1);
    const Expr first = rows_.split ? chunk_ * make_index(chunk()) : make_index(0);
    row_begin_ = first;
    row_end_ = rows_.split ? min(rows, first + make_index(chunk())) : rows;
    const auto known = rows_.split ? rows_.split->extent.as_constant() : std::optional<int64_t>(1);
    const int64_t direct = std::min(schedule_.rows, schedule_.m);
    const auto branch = [&](const Expr& condition, Body body) {
      if (body.empty()) return;
      builder_.add({If{condition, std::move(body)}});
    };
    if (known) {
      Body body = *known <= 1 ? multiply_codes(1) : *known <= direct ? multiply_codes(direct) : share_decoded();
      for (Statement& statement : body) builder_.add(std::move(statement));
      return;
    }
    const Expr here = row_end_ - row_begin_;
    branch(eq(here, make_index(1)), multiply_codes(1));
    branch(gt(here, make_index(1)) & le(here, make_index(direct)), direct > 1 ? multiply_codes(direct) : Body{});
    branch(gt(here, make_index(direct)), share_decoded());
  }

  // --- few rows ---

  /// The rows of this grid point, of which there are `most` at most.
  Axis few_rows(int64_t most) const {
    return most == 1 ? make_axis(Size(1)) : make_axis(row_end_ - row_begin_, most);
  }

  /// What the region's variables are at row `row` of this grid point, but for reduced axes.
  Replacements at_row(const Expr& row) const {
    Replacements at = replacements_;
    if (rows_.split) at.emplace_back(rows_.split->variable->variable, row_begin_ + row);
    return at;
  }

  Body multiply_codes(int64_t most) {
    Body body{clear_rows(most)};
    if (operand_.outer == 0) {
      add_block(most, {}, body);
    } else {
      std::vector<Axis> outer;
      Replacements at;
      for (size_t i = 0; i < operand_.outer; ++i) {
        outer.push_back(make_axis(contraction_.k[i].extent));
        at.emplace_back(contraction_.k[i].variable->variable, outer.back().variable);
      }
      Body inner;
      add_block(most, at, inner);
      for (size_t i = outer.size(); i-- > 0;) {
        Body loop;
        loop.push_back({For{.axis = outer[i], .stages = 1, .body = std::move(inner)}});
        inner = std::move(loop);
      }
      for (Statement& statement : inner) body.push_back(std::move(statement));
    }
    for (const Form& form : region_.forms) add_epilogue(form, body);
    return body;
  }

  int tile() const { return *tile_of(main_->outputs[0]); }

  Statement clear_rows(int64_t most) const {
    Map map;
    map.axes = {few_rows(most), make_axis(Size(schedule_.n))};
    map.stores.push_back({tile(), variables(map.axes), make_constant(DType::kFloat32, 0), ScatterMode::kSet});
    return {std::move(map)};
  }

  /// Adds what one block gives to the tile; `outer` says which block.
  void add_block(int64_t most, const Replacements& outer, Body& body) {
    if (block_sums_ < 0) block_sums_ = builder_.add_scratch("sums", DType::kFloat32, {schedule_.rows, schedule_.n});
    body.push_back(sum_codes(most, outer));
    if (operand_.zero) {
      if (row_sums_ < 0) row_sums_ = builder_.add_scratch("rows", DType::kFloat32, {schedule_.rows});
      body.push_back(sum_rows(most, outer));
    }
    Map map;
    map.axes = {few_rows(most), make_axis(Size(schedule_.n))};
    const Expr row = map.axes[0].variable, lane = map.axes[1].variable;
    Replacements at = at_row(row);
    at.insert(at.end(), outer.begin(), outer.end());
    Expr sum = make_load(block_sums_, DType::kFloat32, {row, lane});
    if (operand_.zero) {
      sum = sum - make_load(row_sums_, DType::kFloat32, {row}) * in_panels(operand_.zero, at, lane);
    }
    if (operand_.scale) sum = sum * in_panels(operand_.scale, at, lane);
    map.stores.push_back(
        {tile(), {row, lane}, make_load(tile(), DType::kFloat32, {row, lane}) + sum, ScatterMode::kSet});
    body.push_back({std::move(map)});
  }

  /// Sums of the left operand times codes: vectors of one row side by side, or rows of one vector.
  Statement sum_codes(int64_t most, const Replacements& outer) const {
    const Axis vector = make_axis(Size(schedule_.n / lanes_)), lane = make_axis(Size(lanes_)), row = few_rows(most);
    Replacements at = at_row(row.variable);
    at.insert(at.end(), outer.begin(), outer.end());
    Reduce reduce;
    reduce.axes = most == 1 ? std::vector{row, vector, lane} : std::vector{vector, row, lane};
    constexpr int64_t kMostPoints = 16;  // side by side in registers
    reduce.points = std::min(most == 1 ? schedule_.n / lanes_ : most, kMostPoints);
    for (size_t i = operand_.outer; i < contraction_.k.size(); ++i) {
      reduce.reduced.push_back(make_axis(contraction_.k[i].extent));
      at.emplace_back(contraction_.k[i].variable->variable, reduce.reduced.back().variable);
    }
    const Expr column = vector.variable * make_index(lanes_) + lane.variable;
    reduce.lift = {builder_.to_buffers(substitute(contraction_.a, at)) * in_panels(operand_.code, at, column)};
    reduce.monoid = make_monoid(Intrinsic::kAdd, DType::kFloat32);
    reduce.outputs.push_back({block_sums_, {row.variable, column}, {}, ScatterMode::kSet});
    return {std::move(reduce)};
  }

  /// Sums of the left operand over a block, which the zero points are multiplied by.
  Statement sum_rows(int64_t most, const Replacements& outer) const {
    Reduce reduce;
    reduce.axes = {few_rows(most)};
    const Expr row = reduce.axes[0].variable;
    Replacements at = at_row(row);
    at.insert(at.end(), outer.begin(), outer.end());
    reduce.reduced = inner_axes(operand_.outer, at);
    reduce.lift = {builder_.to_buffers(substitute(contraction_.a, at))};
    reduce.monoid = make_monoid(Intrinsic::kAdd, DType::kFloat32);
    reduce.outputs.push_back({row_sums_, {row}, {}, ScatterMode::kSet});
    return {std::move(reduce)};
  }

  /// Axes for the reduced ones from number `first` on: one where the left operand runs along them as along one.
  std::vector<Axis> inner_axes(size_t first, Replacements& at) const {
    const std::vector<graft::Axis>& k = contraction_.k;
    std::vector<Axis> axes;
    if (runs_as_one(contraction_.a, k, first)) {
      Size extent = 1;
      for (size_t i = first; i < k.size(); ++i) extent = extent * k[i].extent;
      axes.push_back(make_axis(extent));
      for (size_t i = first; i < k.size(); ++i) {
        at.emplace_back(k[i].variable->variable, i + 1 == k.size() ? axes[0].variable : make_index(0));
      }
      return axes;
    }
    for (size_t i = first; i < k.size(); ++i) {
      axes.push_back(make_axis(k[i].extent));
      at.emplace_back(k[i].variable->variable, axes.back().variable);
    }
    return axes;
  }

  // --- many rows ---

  /// Steps of the first reduced axis that are decoded at a time.
  int64_t piece() const {
    const auto extent = contraction_.k[0].extent.as_constant();
    return extent ? std::min(std::max<int64_t>(*extent, 1), schedule_.k) : schedule_.k;
  }

  Size piece_depth() const {
    Size depth = piece();
    for (size_t i = 1; i < contraction_.k.size(); ++i) depth = depth * contraction_.k[i].extent;
    return depth;
  }

  /// The reduced axes of a piece that begins at step `begin`.
  std::vector<Axis> piece_axes(const Expr& begin, Replacements& at) const {
    std::vector<Axis> axes;
    for (size_t i = 0; i < contraction_.k.size(); ++i) {
      const graft::Axis& axis = contraction_.k[i];
      const bool exact = axis.extent.is_multiple_of(piece());
      axes.push_back(i > 0   ? make_axis(axis.extent)
                     : exact ? make_axis(Size(piece()))
                             : make_axis(min(make_index(piece()), make_size(axis.extent) - begin), piece()));
      at.emplace_back(axis.variable->variable, i > 0 ? axes.back().variable : begin + axes.back().variable);
    }
    return axes;
  }

  /// Pieces of the panel are decoded once each, for all rows of the grid point.
  Body share_decoded() {
    decoded_ = builder_.add_scratch("decoded", DType::kFloat32, {piece_depth(), Size(schedule_.n)});
    if (!reads_left_in_place()) {
      left_ = builder_.add_scratch("left", DType::kFloat32, {Size(schedule_.m), piece_depth()});
    }
    For pieces{.axis = make_axis(ceil_div(contraction_.k[0].extent, piece())), .stages = 1, .body = {}};
    const Expr step = pieces.axis.variable * make_index(piece());
    pieces.body.push_back(decode(step));
    For tiles{.axis = make_axis(ceil_div_expr(row_end_ - row_begin_, make_index(schedule_.m)), chunk() / schedule_.m),
              .stages = 1,
              .body = {}};
    const Expr first = tiles.axis.variable * make_index(schedule_.m);
    const Axis row = make_axis(min(make_index(schedule_.m), row_end_ - row_begin_ - first), schedule_.m);
    if (left_ >= 0) tiles.body.push_back(copy_left(row, first, step));
    tiles.body.push_back(multiply(row, first, step));
    pieces.body.push_back({std::move(tiles)});
    Body body{clear_rows(chunk())};
    body.push_back({std::move(pieces)});
    for (const Form& form : region_.forms) add_epilogue(form, body);
    return body;
  }

  /// Whether the left operand is multiplied where it lies.
  bool reads_left_in_place() const { return runs_as_one(contraction_.a, contraction_.k, 0); }

  Statement decode(const Expr& step) const {
    Replacements at = replacements_;
    const std::vector<Axis> k = piece_axes(step, at);
    const Axis lane = make_axis(Size(schedule_.n));
    Map map;
    map.axes = k;
    map.axes.push_back(lane);
    map.stores.push_back(
        {decoded_, {flattened(k), lane.variable}, in_panels(contraction_.b, at, lane.variable), ScatterMode::kSet});
    return {std::move(map)};
  }

  Statement copy_left(const Axis& row, const Expr& first, const Expr& step) const {
    Replacements at = at_row(first + row.variable);
    const std::vector<Axis> k = piece_axes(step, at);
    Map map;
    map.axes = {row};
    map.axes.insert(map.axes.end(), k.begin(), k.end());
    map.stores.push_back({left_, {row.variable, flattened(k)},
                          builder_.to_buffers(substitute(contraction_.a, at)), ScatterMode::kSet});
    return {std::move(map)};
  }

  Statement multiply(const Axis& row, const Expr& first, const Expr& step) const {
    Contract c;
    Replacements at = at_row(first + row.variable);
    Replacements of_piece;
    const Axis k = flat_axis(piece_axes(step, of_piece));
    const Axis lane = make_axis(Size(schedule_.n));
    c.m = {row}, c.n = {lane}, c.k = {k};
    if (left_ >= 0) {
      c.a = make_load(left_, DType::kFloat32, {row.variable, k.variable});
    } else {
      for (size_t i = 0; i < contraction_.k.size(); ++i) {
        const bool last = i + 1 == contraction_.k.size();
        Expr index = i == 0 ? step : make_index(0);
        if (last) index = i == 0 ? step + k.variable : k.variable;
        at.emplace_back(contraction_.k[i].variable->variable, index);
      }
      c.a = builder_.to_buffers(substitute(contraction_.a, at));
    }
    c.b = make_load(decoded_, DType::kFloat32, {k.variable, lane.variable});
    c.c = tile();
    c.c_indices = {first + row.variable, lane.variable};
    c.accumulate = true;
    return {std::move(c)};
  }

  const DecodeSchedule& schedule_;
  DecodedOperand operand_;
  int64_t lanes_ = 16;
  Expr chunk_;
  int block_sums_ = -1, row_sums_ = -1, decoded_ = -1, left_ = -1;
};

}  // namespace

Lowered lower_decoded(const Region& region, const Layouts& layouts, const DecodeSchedule& schedule,
                      const Target& target) {
  if (target.kind == TargetKind::kCuda) return "a GPU makes products in blocks";
  return DecodedLowering(region, layouts, schedule, target).run();
}

}  // namespace graft::tile
