// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions by tiles: the accumulator tile lives in scratch, operands that the micro-kernel
// cannot read where they are get packed into scratch, and the forms after the contraction run on the tile.
#include <algorithm>

#include <fmt/format.h>

#include "strategy/contract.h"
#include "base/error.h"
#include "fuse/rewrite_region.h"
#include "strategy/contract_tiles.h"
#include "strategy/window_copy.h"

namespace graft::tile {
namespace {

class ContractLowering : ContractTiles {
 public:
  ContractLowering(const Region& region, const Layouts& layouts, const ContractSchedule& schedule, const Target& target)
      : ContractTiles(region, layouts, target), schedule_(schedule) {
    unit_ = schedule.unit;
  }

  Lowered run() {
    if (const std::string reason = analyse(); !reason.empty()) return reason;
    rows_ = tile_rows(schedule_.m);
    columns_ = tile_columns(schedule_.n, !packed_right());
    copies_windows_ = schedule_.window && needs_left_copy();
    if (copies_windows_) {
      if (const std::string reason = find_windows(); !reason.empty()) return reason;
    }
    make_grid();
    place_tiles(tile_lanes());
    lower_grid_point();
    return builder_.finish(region_.name);
  }

 private:
  std::string analyse() {
    if (std::string reason = find_main(); !reason.empty()) return reason;
    if (contraction_.m.empty()) return "the contraction has no rows";
    if (const std::string reason = schedule_.unit ? why_no_unit() : ""; !reason.empty()) return reason;
    if (const auto layout = packed_right(); layout && schedule_.n % layout->lanes != 0) {
      return "a tile's columns are not whole panels";
    }
    return why_not_on_tiles();
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

  std::optional<PanelLayout> packed_right() const {
    const Expr& b = contraction_.b;
    if (b->kind != ExprKind::kLoad || b->tensor >= static_cast<int>(layouts_.size())) return std::nullopt;
    return layouts_[b->tensor];
  }

  Size tile_lanes() const {
    if (const auto layout = packed_right()) return ceil_div(columns_.bound, layout->lanes) * Size(layout->lanes);
    return Size(columns_.bound) * whole_extent(columns_.whole);
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

  const ContractSchedule& schedule_;
  Expr row_tile_, k_begin_;
  Size row_chunks_ = 1;
  int left_copy_ = -1, right_copy_ = -1;
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
