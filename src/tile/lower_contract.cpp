// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions by tiles: the accumulator tile lives in scratch, operands that the micro-kernel
// cannot read where they are get packed into scratch, and the forms after the contraction run on the tile.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "fuse/contraction.h"
#include "fuse/rewrite_region.h"
#include "tile/builder.h"
#include "tile/window_copy.h"

namespace graft::tile {
namespace {

using Replacements = std::vector<std::pair<int, Expr>>;

/// One tiled role of the contraction (rows or columns): which axes the grid fixes, which run inside the tile.
struct Tiling {
  std::vector<graft::Axis> outer;    ///< fixed by the grid, one point each
  std::optional<graft::Axis> split;  ///< cut into tiles of `step`
  Size step = 1, tiles = 1;
  std::vector<graft::Axis> whole;  ///< inside the tile from 0 to their extent
  int64_t bound = 1;               ///< of the split part inside a tile
};

/// The scratch position of a point of a tile: row-major over the tile's axes.
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

class ContractLowering {
 public:
  ContractLowering(const Region& region, const Layouts& layouts, const ContractSchedule& schedule, const Target& target)
      : region_(region), layouts_(layouts), schedule_(schedule), target_(target), builder_(region, layouts) {
  }

  Lowered run() {
    if (const std::string reason = analyse(); !reason.empty()) return reason;
    rows_ = tile_rows();
    columns_ = tile_columns();
    copies_windows_ = schedule_.window && needs_left_copy();
    if (copies_windows_) {
      if (const std::string reason = find_windows(); !reason.empty()) return reason;
    }
    make_grid();
    place_tiles();
    lower_grid_point();
    return builder_.finish(region_.name);
  }

 private:
  std::string analyse() {
    for (size_t f = 0; f < region_.forms.size(); ++f) {
      const auto* reduce = std::get_if<graft::Reduce>(&region_.forms[f]);
      if (!reduce) {
        if (!std::holds_alternative<Compute>(region_.forms[f])) return "a form is neither a map nor a contraction";
        if (!main_) return "a map runs before the contraction";
        continue;
      }
      if (main_) return "there is more than one reduction";
      main_ = reduce;
    }
    const auto contraction = main_ ? find_contraction(*main_) : std::nullopt;
    if (!contraction) return "there is no contraction";
    contraction_ = *contraction;
    order_reduced_axes(contraction_);
    if (contraction_.m.empty()) return "the contraction has no rows";
    if (const std::string reason = schedule_.unit ? why_no_unit() : ""; !reason.empty()) return reason;
    if (const auto layout = packed_right(); layout && schedule_.n % layout->lanes != 0) {
      return "a tile's columns are not whole panels";
    }
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

  /// Why the schedule's unit does not multiply these operands, or nothing.
  std::string why_no_unit() {
    const ContractUnit& unit = *schedule_.unit;
    if (!has_unit(target_, unit)) return fmt::format("the target has no {}", unit.name);
    contraction_.a = unwidened(contraction_.a), contraction_.b = unwidened(contraction_.b);
    if (contraction_.a->type != unit.a || contraction_.b->type != unit.b || accumulator_type() != unit.sum) {
      return fmt::format("{} multiplies {} and {} into {}", unit.name, name_of(unit.a), name_of(unit.b),
                         name_of(unit.sum));
    }
    const auto layout = packed_right();
    if (!layout || layout->pack != unit.pack || layout->step != unit.k) {
      return fmt::format("{}: the right operand does not lie in panels of the unit", unit.name);
    }
    const Expr& innermost = contraction_.k.back().variable;
    if (!equal(contraction_.b->args[layout->rest.back()], innermost)) {
      return fmt::format("{}: the innermost reduced axis is no dimension of the right operand", unit.name);
    }
    if (schedule_.k != 0) return fmt::format("{}: the reduction is cut into pieces", unit.name);
    return "";
  }

  /// The windows of a tile's rows: those of the split axis, and of whole axes inside of it.
  std::string find_windows() {
    if (schedule_.k != 0) return "the reduction is cut into pieces";
    std::vector<MovingAxis> moving{{*rows_.split, rows_.bound}};
    for (const graft::Axis& axis : rows_.whole) moving.push_back({axis, axis.extent.constant()});
    windows_.emplace(contraction_, std::move(moving), schedule_.unit ? schedule_.unit->k : 1);
    return windows_->why_not();
  }

  bool is_result_axis(const graft::Axis& axis) const {
    return std::any_of(main_->axes.begin(), main_->axes.end(),
                       [&](const graft::Axis& own) { return own.variable->variable == axis.variable->variable; });
  }

  /// A load of a tensor of the region that is not at the point being computed.
  bool reads_elsewhere(const Form& form) const {
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

  /// Rows: the innermost m axis is cut into nearly equal tiles of at most schedule.m; when it is shorter, several of
  /// its rows make a tile.
  Tiling tile_rows() const {
    Tiling tiling;
    const auto& m = contraction_.m;
    const auto last = m.back().extent.as_constant();
    const bool several = m.size() > 1 && last && *last > 0 && 2 * *last <= schedule_.m;
    const size_t split = several ? m.size() - 2 : m.size() - 1;
    tiling.outer.assign(m.begin(), m.begin() + static_cast<std::ptrdiff_t>(split));
    tiling.split = m[split];
    tiling.bound = several ? schedule_.m / *last : schedule_.m;
    if (several) tiling.whole = {m.back()};
    const Size count = max(ceil_div(m[split].extent, tiling.bound), Size(1));
    tiling.step = ceil_div(m[split].extent, count);
    tiling.tiles = count;
    return tiling;
  }

  /// Columns: tiles of schedule.n lanes; when the innermost n axis is shorter, several of its rows make a tile.
  Tiling tile_columns() const {
    Tiling tiling;
    const auto& n = contraction_.n;
    const auto last = n.back().extent.as_constant();
    const bool several_rows = n.size() > 1 && last && *last > 0 && *last < schedule_.n && !packed_right();
    const size_t split = several_rows ? n.size() - 2 : n.size() - 1;
    tiling.outer.assign(n.begin(), n.begin() + static_cast<std::ptrdiff_t>(split));
    tiling.split = n[split];
    tiling.bound = several_rows ? std::max<int64_t>(1, schedule_.n / *last) : schedule_.n;
    if (several_rows) tiling.whole = {n.back()};
    tiling.step = tiling.bound;
    tiling.tiles = ceil_div(n[split].extent, tiling.bound);
    return tiling;
  }

  std::optional<PanelLayout> packed_right() const {
    const Expr& b = contraction_.b;
    if (b->kind != ExprKind::kLoad || b->tensor >= static_cast<int>(layouts_.size())) return std::nullopt;
    return layouts_[b->tensor];
  }

  void fix(const std::vector<graft::Axis>& axes) {
    for (const graft::Axis& axis : axes) {
      replacements_.emplace_back(axis.variable->variable, builder_.add_grid(axis.extent));
    }
  }

  void make_grid() {
    fix(contraction_.batch);
    fix(rows_.outer);
    fix(columns_.outer);
    const auto add_rows = [&] {
      row_chunks_ = needs_right_copy() && schedule_.m_chunk > schedule_.m
                        ? ceil_div(rows_.split->extent, schedule_.m_chunk)
                        : rows_.tiles;
      if (!row_chunks_.is(1)) row_tile_ = builder_.add_grid(row_chunks_);
    };
    if (!schedule_.columns_outer) add_rows();
    column_tile_ = columns_.tiles.is(1) ? make_index(0) : builder_.add_grid(columns_.tiles);
    if (schedule_.columns_outer) add_rows();
  }

  /// A load that the micro-kernel can read in place: affine, one dimension per role, and for the right side lanes with
  /// stride 1.
  bool readable(const Expr& e, const std::vector<graft::Axis>* lanes) const {
    if (e->kind != ExprKind::kLoad) return false;
    for (const Expr& index : e->args) {
      if (!affine(index)) return false;
    }
    if (!lanes) return true;
    if (e->args.empty()) return false;
    const int v = lanes->back().variable->variable;
    for (size_t d = 0; d + 1 < e->args.size(); ++d) {
      if (uses_variable(e->args[d], v)) return false;
    }
    return affine(e->args.back())->coefficient(v).is(1);
  }

  DType accumulator_type() const { return main_->lift[0]->type; }
  /// What a tile holds of the contraction's result: a unit leaves its own sums there.
  DType sum_type(int result) const { return schedule_.unit ? schedule_.unit->sum : region_.tensors[result].type; }
  /// The result at a point of its tile.
  Expr load_sum(int result, const std::vector<Expr>& position) const {
    return make_cast(region_.tensors[result].type, make_load(*tile_of(result), sum_type(result), position));
  }
  /// What the left operand is multiplied as.
  DType left_type() const { return schedule_.unit ? schedule_.unit->a : accumulator_type(); }
  /// Operand types that the micro-kernel multiplies as they are.
  Expr direct(const Expr& operand) const {
    if (operand->kind != ExprKind::kLoad) return {};
    if (schedule_.unit || operand->type == accumulator_type()) return operand;
    return {};
  }
  bool needs_left_copy() const {
    const Expr left = direct(contraction_.a);
    if (!left || !readable(left, nullptr) || !rows_.whole.empty()) return true;
    return schedule_.unit && (pads_k() || !runs_along_innermost(left));
  }
  /// Whether the innermost reduced axis is no whole number of instructions of the unit.
  bool pads_k() const { return schedule_.unit && !contraction_.k.back().extent.is_multiple_of(schedule_.unit->k); }
  /// Whether a step of the innermost reduced axis is one element.
  bool runs_along_innermost(const Expr& load) const {
    const int k = contraction_.k.back().variable->variable;
    for (size_t d = 0; d + 1 < load->args.size(); ++d) {
      if (uses_variable(load->args[d], k)) return false;
    }
    return !load->args.empty() && affine(load->args.back())->coefficient(k).is(1);
  }
  bool needs_right_copy() const {
    if (packed_right()) return false;
    const Expr right = direct(contraction_.b);
    return !right || !readable(right, &contraction_.n) || !columns_.whole.empty();
  }

  void place_tiles() {
    Size lanes = Size(columns_.bound) * whole_extent(columns_.whole);
    if (packed_right()) lanes = ceil_div(columns_.bound, packed_right()->lanes) * Size(packed_right()->lanes);
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

  /// Rows of a tile at most.
  Size row_bound() const { return Size(rows_.bound) * whole_extent(rows_.whole); }

  std::optional<int> tile_of(int tensor) const {
    for (const auto& [t, buffer] : tiles_) {
      if (t == tensor) return buffer;
    }
    return std::nullopt;
  }

  /// One pass over a tile: its axes and what the region's variables are at a point of it.
  struct Pass {
    std::vector<Axis> m, n;
    Replacements at;
    std::vector<Expr> position;  ///< in scratch tiles
  };

  Pass make_pass() const {
    Pass pass{.m = {}, .n = {}, .at = replacements_, .position = {}};
    const Expr step = make_size(rows_.step), begin = row_begin_;
    pass.m.push_back(make_axis(min(step, row_end_ - begin), rows_.bound));
    pass.at.emplace_back(rows_.split->variable->variable, begin + pass.m.back().variable);
    for (const graft::Axis& axis : rows_.whole) {
      pass.m.push_back(make_axis(axis.extent));
      pass.at.emplace_back(axis.variable->variable, pass.m.back().variable);
    }
    const Expr column = column_tile_ * make_size(columns_.step);
    const auto constant = columns_.split->extent.as_constant();
    const bool exact = constant && *constant % columns_.bound == 0;
    pass.n.push_back(
        exact ? make_axis(Size(columns_.bound))
              : make_axis(min(make_size(columns_.step), make_size(columns_.split->extent) - column), columns_.bound));
    pass.at.emplace_back(columns_.split->variable->variable, column + pass.n.back().variable);
    for (const graft::Axis& axis : columns_.whole) {
      pass.n.push_back(make_axis(axis.extent));
      pass.at.emplace_back(axis.variable->variable, pass.n.back().variable);
    }
    pass.position = {flattened(pass.m), flattened(pass.n)};
    return pass;
  }

  /// The k axes inside one pass, the first cut into pieces of schedule.k when asked.
  std::vector<Axis> make_k(Replacements& at) const {
    std::vector<Axis> k;
    for (const graft::Axis& axis : contraction_.k) {
      const bool cut = k.empty() && k_begin_;
      k.push_back(cut ? make_axis(min(make_index(schedule_.k), make_size(axis.extent) - k_begin_), schedule_.k)
                      : make_axis(axis.extent));
      at.emplace_back(axis.variable->variable, cut ? k_begin_ + k.back().variable : k.back().variable);
    }
    return k;
  }

  /// Instructions of the unit along the innermost reduced axis, in groups of elements that lie together.
  Size unit_groups() const {
    const ContractUnit& unit = *schedule_.unit;
    return ceil_div(contraction_.k.back().extent, unit.k) * Size(unit.k / unit.pack);
  }

  /// The same with the innermost axis as groups of elements and the elements of a group.
  std::vector<Axis> make_unit_k(Replacements& at) const {
    std::vector<Axis> k = make_k(at);
    k.back() = make_axis(unit_groups());
    k.push_back(make_axis(Size(schedule_.unit->pack)));
    const Expr element = k[k.size() - 2].variable * make_index(schedule_.unit->pack) + k.back().variable;
    at.back() = {contraction_.k.back().variable->variable, element};
    return k;
  }

  /// Scratch extents of the k axes.
  Size k_extent() const {
    Size extent = 1;
    for (size_t i = 0; i < contraction_.k.size(); ++i) {
      const bool padded = schedule_.unit && i + 1 == contraction_.k.size();
      extent = extent * (padded                ? unit_groups() * Size(schedule_.unit->pack)
                         : i == 0 && cuts_k() ? Size(schedule_.k)
                                               : contraction_.k[i].extent);
    }
    return extent;
  }
  bool cuts_k() const {
    if (schedule_.k == 0) return false;
    const auto extent = contraction_.k[0].extent.as_constant();
    return !extent || *extent > schedule_.k;
  }

  Expr converted(const Expr& e, const Replacements& at) const { return builder_.to_buffers(substitute(e, at)); }

  /// Copies what the windows of a tile read.
  Statement copy_windows() const {
    const Pass pass = make_pass();
    std::vector<Expr> begins(pass.m.size(), make_index(0));
    begins[0] = row_begin_;
    Replacements at = pass.at;
    auto [axes, value] = windows_->copy(pass.m, begins, replacements_, at);
    Map map{.axes = std::move(axes), .condition = {}, .stores = {}};
    map.stores.push_back({left_copy_, variables(map.axes), converted(value, at), ScatterMode::kSet});
    return {std::move(map)};
  }

  /// Copies an operand into scratch: [k][lanes] for the right side, [rows][k] for the left.
  Statement copy_operand(const Expr& operand, int buffer, bool right) const {
    Pass pass = make_pass();
    std::vector<Axis> k = make_k(pass.at);
    Expr value = operand;
    if (pads_k()) {
      const graft::Axis& innermost = contraction_.k.back();
      k.back().extent = make_size(unit_groups() * Size(schedule_.unit->pack));
      k.back().bound = unit_groups().as_constant().value_or(0) * schedule_.unit->pack;
      value = select(lt(innermost.variable, make_size(innermost.extent)), value, make_constant(value->type, 0));
    }
    Map map;
    const std::vector<Axis>& across = right ? pass.n : pass.m;
    map.axes = right ? k : across;
    const std::vector<Axis>& last = right ? across : k;
    map.axes.insert(map.axes.end(), last.begin(), last.end());
    const Expr row = right ? flattened(k) : flattened(across);
    const Expr column = right ? flattened(across) : flattened(k);
    map.stores.push_back({buffer, {row, column}, converted(value, pass.at), ScatterMode::kSet});
    return {std::move(map)};
  }

  Statement contract(bool accumulate) const {
    Pass pass = make_pass();
    Contract c;
    c.m = pass.m;
    c.n = pass.n;
    c.unit = schedule_.unit;
    c.k = c.unit ? make_unit_k(pass.at) : make_k(pass.at);
    c.c = *tile_of(main_->outputs[0]);
    c.accumulate = accumulate;
    if (copies_windows_) {
      c.a = make_load(left_copy_, left_type(), windows_->indices(pass.m, pass.at));
    } else if (left_copy_ >= 0) {
      c.m = {flat_axis(pass.m)};
      c.a = make_load(left_copy_, left_type(), {c.m[0].variable, flattened(c.k)});
      pass.position[0] = c.m[0].variable;
    } else {
      c.a = converted(direct(contraction_.a), pass.at);
    }
    if (const auto layout = packed_right()) {
      use_panels(*layout, pass, c);
    } else if (right_copy_ >= 0) {
      c.n = {flat_axis(pass.n)};
      c.b = make_load(right_copy_, accumulator_type(), {flattened(c.k), c.n[0].variable});
      pass.position[1] = c.n[0].variable;
    } else {
      c.b = converted(direct(contraction_.b), pass.at);
    }
    c.c_indices = pass.position;
    c.tf32 = rounds_to_tf32(c, region_, target_);
    return {std::move(c)};
  }

  /// Several axes that are dense in scratch, as one.
  static Axis flat_axis(const std::vector<Axis>& axes) {
    if (axes.size() == 1) return axes[0];
    Expr extent = axes[0].extent;
    int64_t bound = axes[0].bound;
    for (size_t i = 1; i < axes.size(); ++i) extent = extent * axes[i].extent, bound *= axes[i].bound;
    return {make_variable(), extent, bound};
  }

  /// The lane axis becomes (panel, lane): b = packed[..., first panel + panel, k..., lane].
  void use_panels(const PanelLayout& layout, Pass& pass, Contract& c) const {
    const int64_t panels = columns_.bound / layout.lanes;
    const Expr first = column_tile_ * make_index(panels);
    const Size total = ceil_div(columns_.split->extent, layout.lanes);
    const bool exact = total.is_multiple_of(panels);
    const Axis panel =
        exact ? make_axis(Size(panels)) : make_axis(min(make_index(panels), make_size(total) - first), panels);
    const Axis lane = make_axis(Size(layout.lanes));
    c.n = {panel, lane};
    const Expr load = substitute(contraction_.b, pass.at);
    std::vector<Expr> indices(load->args.begin(), load->args.begin() + layout.keep);
    indices.push_back(first + panel.variable);
    for (const int d : layout.rest) indices.push_back(load->args[d]);
    if (c.unit) indices.back() = c.k[c.k.size() - 2].variable;
    indices.push_back(lane.variable);
    if (c.unit) indices.push_back(c.k.back().variable);
    c.b = make_load(builder_.buffer_of(load->tensor), load->type, indices);
    pass.position[1] = panel.variable * make_index(layout.lanes) + lane.variable;
  }

  void lower_grid_point() {
    const Expr rows = make_size(rows_.split->extent);
    const bool chunked = !(row_chunks_ == rows_.tiles);
    const Size chunk = chunked ? Size(schedule_.m_chunk) : rows_.step;
    const Expr tile = row_tile_ ? row_tile_ : make_index(0);
    row_begin_ = tile * make_size(chunk);
    row_end_ = min(rows, row_begin_ + make_size(chunk));
    if (needs_right_copy()) {
      const Size lanes = Size(columns_.bound) * whole_extent(columns_.whole);
      right_copy_ = builder_.add_scratch("right", accumulator_type(), {k_extent(), lanes});
    }
    if (copies_windows_) {
      left_copy_ = builder_.add_scratch("window", left_type(), windows_->shape());
    } else if (needs_left_copy()) {
      left_copy_ = builder_.add_scratch("left", left_type(), {row_bound(), k_extent()});
    }
    Body body;
    if (right_copy_ >= 0 && !cuts_k()) body.push_back(copy_operand(contraction_.b, right_copy_, true));
    if (!chunked) {
      add_row_tile(body);
    } else {
      // Several row tiles share the packed right operand.
      For loop{
          .axis = make_axis(ceil_div_expr(row_end_ - row_begin_, make_size(rows_.step)), 0), .stages = 1, .body = {}};
      row_begin_ = row_begin_ + loop.axis.variable * make_size(rows_.step);
      add_row_tile(loop.body);
      body.push_back({std::move(loop)});
    }
    for (Statement& statement : body) builder_.add(std::move(statement));
  }

  static Expr ceil_div_expr(const Expr& a, const Expr& b) { return floor_div(a + b - make_index(1), b); }

  /// The product of one row tile, then the maps on it.
  void add_row_tile(Body& body) {
    if (!cuts_k()) {
      if (copies_windows_) {
        body.push_back(copy_windows());
      } else if (left_copy_ >= 0) {
        body.push_back(copy_operand(contraction_.a, left_copy_, false));
      }
      body.push_back(contract(false));
    } else {
      body.push_back(clear_tile());
      For loop{.axis = make_axis(ceil_div(contraction_.k[0].extent, schedule_.k)), .stages = 1, .body = {}};
      k_begin_ = loop.axis.variable * make_index(schedule_.k);
      if (right_copy_ >= 0) loop.body.push_back(copy_operand(contraction_.b, right_copy_, true));
      if (left_copy_ >= 0) loop.body.push_back(copy_operand(contraction_.a, left_copy_, false));
      loop.body.push_back(contract(true));
      k_begin_ = {};
      body.push_back({std::move(loop)});
    }
    for (const Form& form : region_.forms) add_epilogue(form, body);
  }

  Statement clear_tile() const {
    const Pass pass = make_pass();
    Map map;
    map.axes = pass.m;
    map.axes.insert(map.axes.end(), pass.n.begin(), pass.n.end());
    map.stores.push_back(
        {*tile_of(main_->outputs[0]), pass.position, make_integer(accumulator_type(), 0), ScatterMode::kSet});
    return {std::move(map)};
  }

  /// A map over the tile; loads of the region's own tensors read the tile.
  void add_epilogue(const Form& form, Body& body) const {
    const bool is_main = std::holds_alternative<graft::Reduce>(form);
    const int tensor = defined_tensors(form)[0];
    if (is_main && builder_.buffer_of(tensor) < 0) return;
    const Pass pass = make_pass();
    const Expr value =
        is_main ? load_sum(tensor, pass.position) : on_tile(std::get<Compute>(form).value, pass);
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

  Expr on_tile(const Expr& e, const Pass& pass) const {
    std::vector<std::pair<int, Expr>> at = pass.at;
    return transform(substitute(e, at), [&](const Expr& node) -> Expr {
      if (node->kind != ExprKind::kLoad) return {};
      const auto tile = tile_of(node->tensor);
      if (tile && node->tensor == main_->outputs[0]) return load_sum(node->tensor, pass.position);
      if (tile) return make_load(*tile, node->type, pass.position);
      return make_load(builder_.buffer_of(node->tensor), node->type, node->args);
    });
  }

  const Region& region_;
  const Layouts& layouts_;
  const ContractSchedule& schedule_;
  const Target& target_;
  ProgramBuilder builder_;
  const graft::Reduce* main_ = nullptr;
  Contraction contraction_;
  Tiling rows_, columns_;
  Replacements replacements_;
  Expr row_tile_, column_tile_, row_begin_, row_end_, k_begin_;
  Size row_chunks_ = 1;
  int left_copy_ = -1, right_copy_ = -1;
  std::vector<std::pair<int, int>> tiles_;  // region tensor -> scratch tile
  bool copies_windows_ = false;
  std::optional<WindowCopy> windows_;
};

}  // namespace

Lowered lower_contract(const Region& region, const Layouts& layouts, const ContractSchedule& schedule,
                       const Target& target) {
  if (target.kind == TargetKind::kCuda) return "a GPU makes products in blocks";
  return ContractLowering(region, layouts, schedule, target).run();
}

}  // namespace graft::tile
