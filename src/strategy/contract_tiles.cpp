// SPDX-License-Identifier: Apache-2.0
#include "strategy/contract_tiles.h"

#include <algorithm>

#include "fuse/rewrite_region.h"

namespace graft::tile {

Expr flattened(const std::vector<Axis>& axes) {
  Expr index = make_index(0);
  for (const Axis& axis : axes) {
    const Expr scale = axis.bound > 0 ? make_index(axis.bound) : axis.extent;
    index = index * scale + axis.variable;
  }
  return index;
}

Size whole_extent(const std::vector<graft::Axis>& axes) {
  Size extent = 1;
  for (const graft::Axis& axis : axes) extent = extent * axis.extent;
  return extent;
}

Axis flat_axis(const std::vector<Axis>& axes) {
  if (axes.size() == 1) return axes[0];
  Expr extent = axes[0].extent;
  int64_t bound = axes[0].bound;
  for (size_t i = 1; i < axes.size(); ++i) extent = extent * axes[i].extent, bound *= axes[i].bound;
  return {make_variable(), extent, bound};
}

Expr ceil_div_expr(const Expr& a, const Expr& b) { return floor_div(a + b - make_index(1), b); }

std::string ContractTiles::find_main() {
  for (const Form& form : region_.forms) {
    const auto* reduce = std::get_if<graft::Reduce>(&form);
    if (!reduce) {
      if (!std::holds_alternative<Compute>(form)) return "a form is neither a map nor a contraction";
      if (!main_) return "a map runs before the contraction";
      continue;
    }
    if (main_) return "there is more than one reduction";
    main_ = reduce;
  }
  const auto contraction = main_ ? graft::find_contraction(*main_) : std::nullopt;
  if (!contraction) return "there is no contraction";
  contraction_ = *contraction;
  order_reduced_axes(contraction_);
  return "";
}

std::string ContractTiles::why_not_on_tiles() const {
  for (const Form& form : region_.forms) {
    for (const graft::Axis& axis : axes_of(form)) {
      if (!is_result_axis(axis)) return "a map runs over other axes than the contraction";
    }
    if (axes_of(form).size() != main_->axes.size()) return "a map runs over fewer axes than the contraction";
  }
  for (const Form& form : region_.forms) {
    if (reads_elsewhere(form)) return "a map reads the result at another point";
  }
  return "";
}

bool ContractTiles::is_result_axis(const graft::Axis& axis) const {
  return std::any_of(main_->axes.begin(), main_->axes.end(),
                     [&](const graft::Axis& own) { return own.variable->variable == axis.variable->variable; });
}

/// A load of a tensor of the region that is not at the point being computed.
bool ContractTiles::reads_elsewhere(const Form& form) const {
  bool elsewhere = false;
  for_each_load(form, [&](const Expr& load) {
    for (const Form& other : region_.forms) {
      const auto defined = defined_tensors(other);
      if (std::find(defined.begin(), defined.end(), load->tensor) == defined.end()) continue;
      const auto& axes = axes_of(other);
      for (size_t d = 0; d < axes.size(); ++d) elsewhere |= !equal(load->args[d], axes[d].variable);
    }
  });
  return elsewhere;
}

Tiling ContractTiles::tile_rows(int64_t most) const {
  Tiling tiling;
  const auto& m = contraction_.m;
  if (m.empty()) return tiling;
  const auto last = m.back().extent.as_constant();
  const bool several = m.size() > 1 && last && *last > 0 && 2 * *last <= most;
  const size_t split = several ? m.size() - 2 : m.size() - 1;
  tiling.outer.assign(m.begin(), m.begin() + static_cast<std::ptrdiff_t>(split));
  tiling.split = m[split];
  tiling.bound = several ? most / *last : most;
  if (several) tiling.whole = {m.back()};
  const Size count = max(ceil_div(m[split].extent, tiling.bound), Size(1));
  tiling.step = ceil_div(m[split].extent, count);
  tiling.tiles = count;
  return tiling;
}

Tiling ContractTiles::tile_columns(int64_t most, bool joins) const {
  Tiling tiling;
  const auto& n = contraction_.n;
  const auto last = n.back().extent.as_constant();
  const bool several_rows = n.size() > 1 && last && *last > 0 && *last < most && joins;
  const size_t split = several_rows ? n.size() - 2 : n.size() - 1;
  tiling.outer.assign(n.begin(), n.begin() + static_cast<std::ptrdiff_t>(split));
  tiling.split = n[split];
  tiling.bound = several_rows ? std::max<int64_t>(1, most / *last) : most;
  if (several_rows) tiling.whole = {n.back()};
  tiling.step = tiling.bound;
  tiling.tiles = ceil_div(n[split].extent, tiling.bound);
  return tiling;
}

void ContractTiles::fix(const std::vector<graft::Axis>& axes) {
  for (const graft::Axis& axis : axes) {
    replacements_.emplace_back(axis.variable->variable, builder_.add_grid(axis.extent));
  }
}

void ContractTiles::place_tiles(const Size& lanes) {
  const Shape shape{row_bound(), lanes};
  for (const Form& form : region_.forms) {
    for (const int tensor : defined_tensors(form)) {
      const bool is_main = std::holds_alternative<graft::Reduce>(form);
      const bool has_buffer = builder_.buffer_of(tensor) >= 0;
      if (has_buffer && !is_main) continue;
      const TensorDecl& decl = region_.tensors[tensor];
      const DType type = is_main ? sum_type(tensor) : decl.type;
      const int tile = builder_.add_scratch(has_buffer ? "tile" : decl.name, type, shape,
                                            is_main ? Scope::kFragment : Scope::kShared);
      tiles_.emplace_back(tensor, tile);
    }
  }
}

std::optional<int> ContractTiles::tile_of(int tensor) const {
  for (const auto& [t, buffer] : tiles_) {
    if (t == tensor) return buffer;
  }
  return std::nullopt;
}

ContractTiles::Pass ContractTiles::make_pass() const {
  Pass pass{.m = {}, .n = {}, .at = replacements_, .position = {}};
  if (rows_.split) {
    const Expr step = make_size(rows_.step), begin = row_begin_;
    pass.m.push_back(make_axis(min(step, row_end_ - begin), rows_.bound));
    pass.at.emplace_back(rows_.split->variable->variable, begin + pass.m.back().variable);
  } else {
    pass.m.push_back(make_axis(Size(1)));
  }
  for (const graft::Axis& axis : rows_.whole) {
    pass.m.push_back(make_axis(axis.extent));
    pass.at.emplace_back(axis.variable->variable, pass.m.back().variable);
  }
  const Expr column = column_tile_ * make_size(columns_.step);
  const auto constant = columns_.split->extent.as_constant();
  const bool exact = constant && *constant % columns_.bound == 0;
  pass.n.push_back(exact
                       ? make_axis(Size(columns_.bound))
                       : make_axis(min(make_size(columns_.step), make_size(columns_.split->extent) - column),
                                   columns_.bound));
  pass.at.emplace_back(columns_.split->variable->variable, column + pass.n.back().variable);
  for (const graft::Axis& axis : columns_.whole) {
    pass.n.push_back(make_axis(axis.extent));
    pass.at.emplace_back(axis.variable->variable, pass.n.back().variable);
  }
  pass.position = {flattened(pass.m), flattened(pass.n)};
  return pass;
}

Statement ContractTiles::clear_tile() const {
  const Pass pass = make_pass();
  Map map;
  map.axes = pass.m;
  map.axes.insert(map.axes.end(), pass.n.begin(), pass.n.end());
  map.stores.push_back(
      {*tile_of(main_->outputs[0]), pass.position, make_integer(main_->lift[0]->type, 0), ScatterMode::kSet});
  return {std::move(map)};
}

void ContractTiles::add_epilogue(const Form& form, Body& body) const {
  const bool is_main = std::holds_alternative<graft::Reduce>(form);
  const int tensor = defined_tensors(form)[0];
  if (is_main && builder_.buffer_of(tensor) < 0) return;
  const Pass pass = make_pass();
  const Expr value = is_main ? load_sum(tensor, pass.position) : on_tile(std::get<Compute>(form).value, pass);
  Map map;
  map.axes = pass.m;
  map.axes.insert(map.axes.end(), pass.n.begin(), pass.n.end());
  if (builder_.buffer_of(tensor) < 0) {
    map.stores.push_back({*tile_of(tensor), pass.position, value, ScatterMode::kSet});
  } else {
    std::vector<Expr> indices;
    for (const graft::Axis& axis : axes_of(form)) indices.push_back(substitute(axis.variable, pass.at));
    map.stores.push_back(builder_.store(tensor, indices, value));
  }
  body.push_back({std::move(map)});
}

/// The result at a point of its tile.
Expr ContractTiles::load_sum(int result, const std::vector<Expr>& position) const {
  return make_cast(region_.tensors[result].type, make_load(*tile_of(result), sum_type(result), position));
}

Expr ContractTiles::on_tile(const Expr& e, const Pass& pass) const {
  std::vector<std::pair<int, Expr>> at = pass.at;
  return transform(substitute(e, at), [&](const Expr& node) -> Expr {
    if (node->kind != ExprKind::kLoad) return {};
    const auto tile = tile_of(node->tensor);
    if (tile && node->tensor == main_->outputs[0]) return load_sum(node->tensor, pass.position);
    if (tile) return make_load(*tile, node->type, pass.position);
    return make_load(builder_.buffer_of(node->tensor), node->type, node->args);
  });
}

}  // namespace graft::tile
