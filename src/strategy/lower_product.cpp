// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions on a GPU: rows and columns of the product are numbered through, whatever axes they
// come from, and a block of threads makes one tile of them. The forms after the product run on the tile. Where maps
// gather columns, a tile has a stretch of each part of them, and what the maps read goes through shared memory.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "strategy/product.h"
#include "base/error.h"
#include "fuse/contraction.h"
#include "fuse/decoded_operand.h"
#include "fuse/gathered_columns.h"
#include "fuse/rewrite_region.h"
#include "tile/builder.h"

namespace graft::tile {
namespace {

using Replacements = std::vector<std::pair<int, Expr>>;

Size product_of(const std::vector<graft::Axis>& axes) {
  Size product = 1;
  for (const graft::Axis& axis : axes) product = product * axis.extent;
  return product;
}

/// The values of axes at a point of their row-major numbering.
void number_through(const std::vector<graft::Axis>& axes, Expr point, Replacements& at) {
  for (size_t i = axes.size(); i-- > 0;) {
    const Expr extent = make_size(axes[i].extent);
    at.emplace_back(axes[i].variable->variable, i == 0 ? point : mod(point, extent));
    if (i > 0) point = floor_div(point, extent);
  }
}

class ProductLowering {
 public:
  ProductLowering(const Region& region, const Layouts& layouts, const ProductSchedule& schedule, const Target& target)
      : region_(region), layouts_(layouts), schedule_(schedule), target_(target), builder_(region, layouts) {
    builder_.program.threads = static_cast<int>(schedule.threads);
    builder_.program.roles = {.producers = static_cast<int>(schedule.producers),
                              .teams = static_cast<int>(schedule.teams),
                              .group = static_cast<int>(schedule.group),
                              .split = static_cast<int>(schedule.split)};
  }

  Lowered run() {
    if (std::string reason = analyse(); !reason.empty()) return reason;
    merge_result_axes();
    make_grid();
    for (const Form& form : region_.forms) place_tiles(form);
    builder_.add(clear_tile());
    for (Statement& statement : product()) builder_.add(std::move(statement));
    for (const Form& form : region_.forms) {
      if (!is_gathering(form)) add_epilogue(form);
    }
    if (gathered_) add_gathering_maps();
    return builder_.finish(region_.name);
  }

 private:
  std::string analyse() {
    if (schedule_.threads % 32 != 0) return "a block's threads are not whole warps";
    if (schedule_.producers != 0 && schedule_.producers != 128) return "the producers are not one warpgroup";
    if (schedule_.split > 1 && schedule_.producers == 0) return "only blocks with producers share a tile";
    if (schedule_.teams > 1 && schedule_.producers == 0) return "only blocks with producers have teams";
    if (schedule_.teams > 1 && schedule_.split > 1) return "blocks that share a tile have no teams";
    if (schedule_.teams * schedule_.threads + schedule_.producers > 1024) return "a block has more than 1024 threads";
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
    const auto contraction = main_ ? find_contraction(*main_) : std::nullopt;
    if (!contraction) return "there is no contraction";
    contraction_ = *contraction;
    if (std::string reason = schedule_.unit ? why_no_unit() : ""; !reason.empty()) return reason;
    if (schedule_.producers == 0 && !schedule_.unit) decodes_ = decoded_step(*contraction, schedule_.k);
    contraction_.a = unwidened(contraction_.a), contraction_.b = unwidened(contraction_.b);
    if (!decodes_) order_reduced_axes(contraction_);
    if (contraction_.m.empty() && !decodes_) return "the contraction has no rows";
    if (const auto layout = packed(); layout && (contraction_.n.size() > 1 || schedule_.n % layout->lanes != 0)) {
      return "a tile's columns are not whole panels";
    }
    for (const Form& form : region_.forms) {
      if (!same_axes(form)) {
        if (!find_gathered(std::get<Compute>(form))) return "a map runs over other axes than the contraction";
        continue;
      }
      if (reads_elsewhere(form)) return "a map reads the result at another point";
      along_.insert(defined_tensors(form)[0]);
    }
    return gathered_ ? why_not_gathered() : "";
  }

  /// Why the unit of the schedule cannot do it. Only those that split operands are named; types ask for the others.
  std::string why_no_unit() const {
    const ContractUnit& unit = *schedule_.unit;
    const DType a = contraction_.a->type, b = contraction_.b->type, sum = main_->lift[0]->type;
    if (!unit.splits()) return fmt::format("products take {} by themselves", unit.name);
    if (!has_unit(target_, unit)) return fmt::format("the target has no {}", unit.name);
    if (a != unit.a || b != unit.b || sum != unit.sum) return fmt::format("{} multiplies other types", unit.name);
    if (unwidened(contraction_.a)->type != a || unwidened(contraction_.b)->type != b) return "an operand is narrower";
    if (region_.fma) return "products shall be multiply-adds";
    if (region_.tf32) return "operands may be rounded to tf32, which is faster";
    if (unit.scope == ContractUnit::Scope::kWarp && schedule_.producers > 0) return "warps split operands themselves";
    return schedule_.teams > 1 || schedule_.split > 1 ? "blocks that split operands share no tiles" : "";
  }

  bool find_gathered(const Compute& map) {
    const auto columns = gathered_columns(*main_, map, along_, gathering_);
    if (!columns || (gathered_ && gathered_ != columns)) return false;
    gathered_ = columns;
    gathering_.insert(map.output);
    return true;
  }
  bool is_gathering(const Form& form) const { return gathering_.contains(defined_tensors(form)[0]); }

  std::string why_not_gathered() const {
    const bool single = contraction_.n.size() == 1 &&
                        contraction_.n[0].variable->variable == main_->axes.back().variable->variable;
    if (!single) return "its columns are gathered, and have several axes";
    if (packed()) return "its columns are gathered, which panels are not";
    if (schedule_.producers > 0) return "its columns are gathered, which blocks with producers cannot";
    if (schedule_.n % gathered_->parts != 0 || gathered_->extent % lanes() != 0) {
      return "a tile's columns are not as many of each part";
    }
    return "";
  }
  /// Columns of each part in a tile.
  int64_t lanes() const { return schedule_.n / gathered_->parts; }

  bool same_axes(const Form& form) const {
    const auto& axes = axes_of(form);
    if (axes.size() != main_->axes.size()) return false;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].variable->variable != main_->axes[i].variable->variable) return false;
    }
    return true;
  }

  bool defined_here(int tensor) const {
    return std::any_of(region_.forms.begin(), region_.forms.end(), [&](const Form& form) {
      const auto defined = defined_tensors(form);
      return std::find(defined.begin(), defined.end(), tensor) != defined.end();
    });
  }

  /// The indices are the result's axes in order.
  bool at_point(const std::vector<Expr>& indices) const {
    if (indices.size() != main_->axes.size()) return false;
    for (size_t d = 0; d < indices.size(); ++d) {
      if (!equal(indices[d], main_->axes[d].variable)) return false;
    }
    return true;
  }

  bool reads_elsewhere(const Form& form) const {
    bool elsewhere = false;
    for_each_load(form, [&](const Expr& load) { elsewhere |= defined_here(load->tensor) && !at_point(load->args); });
    return elsewhere;
  }

  std::optional<PanelLayout> packed() const {
    const Expr& b = contraction_.b;
    if (b->kind != ExprKind::kLoad || b->tensor >= static_cast<int>(layouts_.size())) return std::nullopt;
    return layouts_[b->tensor];
  }

  /// Tensors that the maps touch only at the point being computed are seen as [batch, row, column], so that their
  /// addresses need no division.
  void merge_result_axes() {
    merged_.assign(region_.tensors.size(), false);
    const auto& [batch, m, n, k, a, b] = contraction_;
    if (m.size() + n.size() <= 2) return;
    std::vector<int> order, expected;
    for (const auto* axes : {&batch, &m, &n}) {
      for (const graft::Axis& axis : *axes) expected.push_back(axis.variable->variable);
    }
    for (const graft::Axis& axis : main_->axes) order.push_back(axis.variable->variable);
    if (order != expected) return;
    for (size_t t = 0; t < region_.tensors.size(); ++t) {
      const int buffer = builder_.buffer_of(static_cast<int>(t));
      if (buffer < 0 || !only_at_point(static_cast<int>(t))) continue;
      merged_[t] = true;
      Buffer& target = builder_.program.buffers[buffer];
      Shape shape(target.shape.begin(), target.shape.begin() + static_cast<std::ptrdiff_t>(batch.size()));
      shape.push_back(product_of(m)), shape.push_back(product_of(n));
      target.shape = shape, target.strides = row_major(shape);
    }
  }

  bool only_at_point(int tensor) const {
    if (tensor < static_cast<int>(layouts_.size()) && layouts_[tensor]) return false;
    const Shape& shape = region_.tensors[tensor].shape;
    if (shape.size() != main_->axes.size()) return false;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (!(shape[d] == main_->axes[d].extent)) return false;
    }
    bool only = true;
    for (const Form& form : region_.forms) {
      const bool is_main = std::holds_alternative<graft::Reduce>(form);
      for_each_load(form, tensor, [&](const Expr& load) { only &= !is_main && at_point(load->args); });
    }
    return only;
  }

  void make_grid() {
    for (const graft::Axis& axis : contraction_.batch) {
      at_.emplace_back(axis.variable->variable, builder_.add_grid(axis.extent));
    }
    rows_ = product_of(contraction_.m), columns_ = product_of(contraction_.n);
    const auto tile = [&](const Size& extent, int64_t step) {
      const Size tiles = max(ceil_div(extent, step), Size(1));
      return tiles.is(1) ? make_index(0) : builder_.add_grid(tiles);
    };
    row_tile_ = tile(rows_, schedule_.m);
    column_tile_ = gathered_ ? tile(Size(gathered_->extent), lanes()) : tile(columns_, schedule_.n);
  }

  void place_tiles(const Form& form) {
    if (is_gathering(form)) return;
    const bool is_main = std::holds_alternative<graft::Reduce>(form);
    const int tensor = defined_tensors(form)[0];
    if (!is_main && builder_.buffer_of(tensor) >= 0) return;
    const TensorDecl& decl = region_.tensors[tensor];
    const int tile = builder_.add_scratch(builder_.buffer_of(tensor) >= 0 ? "tile" : decl.name, decl.type,
                                          {schedule_.m, schedule_.n}, Scope::kFragment);
    tiles_.emplace_back(tensor, tile);
  }

  std::optional<int> tile_of(int tensor) const {
    for (const auto& [t, buffer] : tiles_) {
      if (t == tensor) return buffer;
    }
    return std::nullopt;
  }

  /// One pass over a tile: its axes and what the region's variables are at a point of it.
  struct Pass {
    Axis row, column;
    Expr global_row, global_column;
    Replacements at;
  };

  /// The points of a tile that lie inside of `extent`.
  static Axis inside(const Size& extent, int64_t step, const Expr& tile) {
    if (extent.is_multiple_of(step)) return make_axis(Size(step));
    return make_axis(min(make_index(step), make_size(extent) - tile * make_index(step)), step);
  }

  Pass make_pass() const {
    Pass pass{.row = inside(rows_, schedule_.m, row_tile_),
              .column = inside(columns_, schedule_.n, column_tile_),
              .global_row = {},
              .global_column = {},
              .at = at_};
    pass.global_row = row_tile_ * make_index(schedule_.m) + pass.row.variable;
    if (gathered_) {
      pass.column = make_axis(Size(schedule_.n));
      const Expr column = pass.column.variable, step = make_index(lanes());
      pass.global_column = gathered_column(floor_div(column, step), mod(column, step));
    } else {
      pass.global_column = column_tile_ * make_index(schedule_.n) + pass.column.variable;
    }
    number_through(contraction_.m, pass.global_row, pass.at);
    number_through(contraction_.n, pass.global_column, pass.at);
    return pass;
  }

  /// The product's column at a place of the tile.
  Expr gathered_column(const Expr& part, const Expr& lane) const {
    return part * make_index(gathered_->extent) + column_tile_ * make_index(lanes()) + lane;
  }

  Statement clear_tile() const {
    const Pass pass = make_pass();
    Map map;
    map.axes = {make_axis(Size(schedule_.m)), make_axis(Size(schedule_.n))};
    const Expr zero = make_constant(main_->lift[0]->type, 0);
    map.stores.push_back({*tile_of(main_->outputs[0]), variables(map.axes), zero, ScatterMode::kSet});
    return {std::move(map)};
  }

  /// Elements of the reduction in one step: few steps, but little beyond the end.
  int64_t step_of(const Size& extent) const {
    constexpr int64_t kStepCost = 16;  // of copying and waiting, in elements
    const auto known = extent.as_constant();
    int64_t best = schedule_.k;
    if (!known) return best;
    const auto cost = [&](int64_t step) { return (*known + step - 1) / step * (step + kStepCost); };
    for (int64_t step = schedule_.k / 2; step >= 16 && step % 16 == 0; step /= 2) {
      if (cost(step) < cost(best)) best = step;
    }
    return best;
  }

  /// for each step of all reduced axes, numbered through: tile += a * b, where b is decoded. Codes and what scales them
  /// lie at quotients and remainders of places within the step; to a the axes are one.
  Body decoded_product() {
    const std::vector<graft::Axis>& k = contraction_.k;
    const int64_t step = *decodes_;
    const Size all = product_of(k);
    const Expr round = make_variable(), within = make_variable();
    const Expr rest = all.is_multiple_of(step)
                          ? make_index(step)
                          : min(make_index(step), make_size(all) - round * make_index(step));
    Replacements one, parts;
    int64_t inner = 1;
    for (size_t i = k.size(); i-- > 0;) {
      const int variable = k[i].variable->variable;
      const Expr place = inner == 1 ? within : floor_div(within, make_index(inner));
      if (i == 0) {
        const Expr first = round * make_index(step / inner);
        parts.emplace_back(variable, first + place);
        one.emplace_back(variable, k.size() == 1 ? first + within : first);
      } else {
        const int64_t extent = k[i].extent.constant();
        parts.emplace_back(variable, mod(place, make_index(extent)));
        one.emplace_back(variable, i + 1 == k.size() ? within : make_index(0));
        inner *= extent;
      }
    }
    Pass pass = make_pass();
    const auto at = [&](const Expr& operand, const Replacements& reduced) {
      Replacements everything = pass.at;
      everything.insert(everything.end(), reduced.begin(), reduced.end());
      return builder_.to_buffers(substitute(operand, everything));
    };
    Contract contract{.m = {pass.row}, .n = {pass.column}, .k = {{within, rest, step}}, .a = at(contraction_.a, one),
                      .b = at(contraction_.b, parts)};
    contract.c = *tile_of(main_->outputs[0]);
    contract.c_indices = {pass.row.variable, pass.column.variable};
    contract.accumulate = true;
    For rounds{.axis = make_axis(ceil_div(all, step)),
               .stages = static_cast<int>(schedule_.stages),
               .early = schedule_.early != 0,
               .body = {}};
    rounds.axis.variable = round;
    rounds.body.push_back({std::move(contract)});
    Body body;
    body.push_back({std::move(rounds)});
    return body;
  }

  /// for each reduced axis but the last, for each step of the last: tile += a * b.
  Body product() {
    if (decodes_) return decoded_product();
    std::vector<graft::Axis> k = contraction_.k;
    const auto last = k.back().extent.as_constant();
    constexpr int64_t kShort = 16;
    Replacements at;
    Expr number;
    if (k.size() > 1 && last && *last < kShort) {
      // Short axes are numbered through.
      const graft::Axis all{make_variable(), product_of(k)};
      number_through(k, all.variable, at);
      number = all.variable;
      k = {all};
    }
    const int64_t step = step_of(k.back().extent);
    const Expr round = make_variable(), within = make_variable();
    const bool divides = k.back().extent.is_multiple_of(step);
    const Expr start = round * make_index(step);
    const Expr rest = divides ? make_index(step) : min(make_index(step), make_size(k.back().extent) - start);
    const Replacements split = {{k.back().variable->variable, start + within}};
    for (auto& [variable, value] : at) value = substitute(value, split);
    at.insert(at.end(), split.begin(), split.end());
    Contract contract = operands(at, number ? substitute(number, split) : Expr());
    contract.k = {{within, rest, step}};
    For rounds{.axis = make_axis(ceil_div(k.back().extent, step)),
               .stages = static_cast<int>(schedule_.stages),
               .early = schedule_.early != 0,
               .body = {}};
    rounds.axis.variable = round;
    rounds.body.push_back({std::move(contract)});
    Statement statement{std::move(rounds)};
    for (size_t i = k.size() - 1; i-- > 0;) {
      const Axis axis{k[i].variable, make_size(k[i].extent), k[i].extent.as_constant().value_or(0)};
      For outer{.axis = axis, .body = {}};
      outer.body.push_back(std::move(statement));
      statement = {std::move(outer)};
    }
    Body body;
    body.push_back(std::move(statement));
    return body;
  }

  /// tile += a * b with reduced axes as `at` says; `number`: of the point, when they are numbered through.
  Contract operands(const Replacements& at, const Expr& number) {
    Pass pass = make_pass();
    Contract contract;
    contract.c = *tile_of(main_->outputs[0]);
    contract.accumulate = true;
    contract.m = {pass.row}, contract.n = {pass.column};
    contract.c_indices = {pass.row.variable, pass.column.variable};
    pass.at.insert(pass.at.end(), at.begin(), at.end());
    contract.a = builder_.to_buffers(substitute(contraction_.a, pass.at));
    if (const auto layout = packed()) {
      use_panels(*layout, pass, number, contract);
    } else if (gathered_) {
      const Axis part = make_axis(Size(gathered_->parts)), lane = make_axis(Size(lanes()));
      contract.n = {part, lane};
      contract.c_indices[1] = part.variable * make_index(lanes()) + lane.variable;
      Replacements columns = pass.at;
      std::erase_if(columns, [&](const auto& each) { return each.first == contraction_.n[0].variable->variable; });
      columns.emplace_back(contraction_.n[0].variable->variable, gathered_column(part.variable, lane.variable));
      contract.b = builder_.to_buffers(substitute(contraction_.b, columns));
    } else {
      contract.b = builder_.to_buffers(substitute(contraction_.b, pass.at));
    }
    const DType sum = main_->lift[0]->type;
    if (contract.a->type != contract.b->type && !best_unit(target_, contract.a->type, contract.b->type, sum)) {
      contract.a = make_cast(main_->lift[0]->type, contract.a);
      contract.b = make_cast(main_->lift[0]->type, contract.b);
    }
    contract.tf32 = rounds_to_tf32(contract, region_, target_);
    contract.unit = schedule_.unit;
    return contract;
  }

  /// The column axis becomes (panel, lane): b = packed[..., first panel + panel, k..., lane].
  void use_panels(const PanelLayout& layout, const Pass& pass, const Expr& number, Contract& contract) {
    if (layout.lanes == 1) return use_rows(layout, pass, number, contract);
    const int64_t panels = schedule_.n / layout.lanes;
    const Axis panel = inside(ceil_div(columns_, layout.lanes), panels, column_tile_);
    const Axis lane = make_axis(Size(layout.lanes));
    contract.n = {panel, lane};
    contract.c_indices[1] = panel.variable * make_index(layout.lanes) + lane.variable;
    read_panels(layout, pass, column_tile_ * make_index(panels) + panel.variable, lane.variable, number, contract);
  }

  /// Panels of one column: b = packed[..., column, k...].
  void use_rows(const PanelLayout& layout, const Pass& pass, const Expr& number, Contract& contract) {
    read_panels(layout, pass, column_tile_ * make_index(schedule_.n) + pass.column.variable, make_index(0), number,
                contract);
  }

  void read_panels(const PanelLayout& layout, const Pass& pass, const Expr& panel, const Expr& lane, const Expr& number,
                   Contract& contract) {
    const Expr load = substitute(contraction_.b, pass.at);
    const int buffer = builder_.buffer_of(load->tensor);
    std::vector<Expr> indices(load->args.begin(), load->args.begin() + layout.keep);
    indices.push_back(panel);
    if (number && number_is_order(layout)) {
      Buffer& packed = builder_.program.buffers[buffer];
      packed.shape.erase(packed.shape.begin() + layout.keep + 1, packed.shape.end() - 1);
      packed.shape.insert(packed.shape.end() - 1, product_of(contraction_.k));
      packed.strides = row_major(packed.shape);
      indices.push_back(number);
    } else {
      for (const int d : layout.rest) indices.push_back(load->args[d]);
    }
    indices.push_back(lane);
    contract.b = make_load(buffer, load->type, indices);
  }

  /// Whether the dimensions inside of a panel are the reduced axes, in their order.
  bool number_is_order(const PanelLayout& layout) const {
    size_t next = 0;
    const Expr& b = contraction_.b;
    for (const int d : layout.rest) {
      const Size& extent = region_.tensors[b->tensor].shape[d];
      if (extent.is(1)) continue;
      if (next == contraction_.k.size()) return false;
      const graft::Axis& axis = contraction_.k[next++];
      if (!equal(b->args[d], axis.variable) || !(axis.extent == extent)) return false;
    }
    return next == contraction_.k.size();
  }

  /// Where a tensor of the result's axes lies at a point.
  std::vector<Expr> merged_indices(const Pass& pass) const {
    std::vector<Expr> indices;
    for (size_t i = 0; i < contraction_.batch.size(); ++i) indices.push_back(at_[i].second);
    indices.push_back(pass.global_row), indices.push_back(pass.global_column);
    return indices;
  }

  /// A map over the tile; loads of the region's own tensors read the tile.
  void add_epilogue(const Form& form) {
    const bool is_main = std::holds_alternative<graft::Reduce>(form);
    const int tensor = defined_tensors(form)[0];
    const int buffer = builder_.buffer_of(tensor);
    if (is_main && buffer < 0) return;
    const Pass pass = make_pass();
    const std::vector<Expr> position = {pass.row.variable, pass.column.variable};
    const Expr value = is_main ? make_load(*tile_of(tensor), region_.tensors[tensor].type, position)
                               : on_tile(std::get<Compute>(form).value, pass, position);
    Map map;
    map.axes = {pass.row, pass.column};
    std::vector<Expr> indices = position;
    if (buffer >= 0 && merged_[tensor]) {
      indices = merged_indices(pass);
    } else if (buffer >= 0) {
      indices.clear();
      for (const graft::Axis& axis : axes_of(form)) indices.push_back(substitute(axis.variable, pass.at));
    }
    map.stores.push_back({buffer >= 0 ? buffer : *tile_of(tensor), std::move(indices), value, ScatterMode::kSet});
    builder_.add({std::move(map)});
  }

  /// The maps that gather columns, all in one: each at its own point, from tiles in shared memory.
  void add_gathering_maps() {
    for (const Form& form : region_.forms) {
      if (!is_gathering(form)) continue;
      for (const int tensor : read_tensors(form)) {
        if (!along_.contains(tensor) || shared_.contains(tensor)) continue;
        shared_[tensor] = builder_.add_scratch("columns", region_.tensors[tensor].type, {schedule_.m, schedule_.n});
        Map copy;
        const Pass pass = make_pass();
        copy.axes = {pass.row, pass.column};
        const std::vector<Expr> position = {pass.row.variable, pass.column.variable};
        const Expr element = make_load(*tile_of(tensor), region_.tensors[tensor].type, position);
        copy.stores.push_back({shared_[tensor], position, element, ScatterMode::kSet});
        builder_.add({std::move(copy)});
      }
    }
    Map all;
    const Pass pass = make_pass();
    const Axis lane = make_axis(Size(lanes()));
    all.axes = {pass.row, lane};
    for (const Form& form : region_.forms) {
      if (is_gathering(form)) gather(std::get<Compute>(form), pass, lane.variable, all);
    }
    builder_.add({std::move(all)});
  }

  void gather(const Compute& map, const Pass& pass, const Expr& lane, Map& all) {
    Replacements at;
    for (size_t i = 0; i + 1 < map.axes.size(); ++i) {
      at.emplace_back(map.axes[i].variable->variable, substitute(main_->axes[i].variable, pass.at));
    }
    at.emplace_back(map.axes.back().variable->variable, column_tile_ * make_index(lanes()) + lane);
    const Expr value = transform(map.value, [&](const Expr& node) -> Expr {
      if (node->kind != ExprKind::kLoad) return {};
      if (const auto made = gathered_values_.find(node->tensor); made != gathered_values_.end()) return made->second;
      if (const auto tile = shared_.find(node->tensor); tile != shared_.end()) {
        const int64_t part = affine(node->args.back())->offset.constant() / gathered_->extent;
        return make_load(tile->second, node->type, {pass.row.variable, make_index(part * lanes()) + lane});
      }
      return make_load(builder_.buffer_of(node->tensor), node->type, node->args);
    });
    gathered_values_[map.output] = substitute(value, at);
    const int buffer = builder_.buffer_of(map.output);
    if (buffer < 0) return;
    std::vector<Expr> indices;
    for (const graft::Axis& axis : map.axes) indices.push_back(substitute(axis.variable, at));
    all.stores.push_back({buffer, std::move(indices), gathered_values_[map.output], ScatterMode::kSet});
  }

  Expr on_tile(const Expr& e, const Pass& pass, const std::vector<Expr>& position) const {
    const Expr placed = transform(e, [&](const Expr& node) -> Expr {
      if (node->kind != ExprKind::kLoad) return {};
      if (const auto tile = tile_of(node->tensor)) return make_load(*tile, node->type, position);
      std::vector<Expr> indices = node->args;
      if (merged_[node->tensor]) indices = merged_indices(pass);
      return make_load(builder_.buffer_of(node->tensor), node->type, std::move(indices));
    });
    return substitute(placed, pass.at);
  }

  const Region& region_;
  const Layouts& layouts_;
  const ProductSchedule& schedule_;
  const Target& target_;
  ProgramBuilder builder_;
  const graft::Reduce* main_ = nullptr;
  Contraction contraction_;
  std::optional<int64_t> decodes_;  ///< b is made of codes, so many of which are multiplied together
  std::vector<bool> merged_;  // by region tensor
  Replacements at_;           // of batch axes
  Size rows_, columns_;
  Expr row_tile_, column_tile_;
  std::vector<std::pair<int, int>> tiles_;  // region tensor -> fragment
  // Maps that gather columns: what they make, from what, and as which values at a point of their own.
  std::optional<GatheredColumns> gathered_;
  std::set<int> along_, gathering_;
  std::map<int, int> shared_;  // region tensor -> tile in shared memory
  std::map<int, Expr> gathered_values_;
};

}  // namespace

Lowered lower_product(const Region& region, const Layouts& layouts, const ProductSchedule& schedule,
                      const Target& target) {
  if (target.kind != TargetKind::kCuda) return "the target has no blocks of threads";
  return ProductLowering(region, layouts, schedule, target).run();
}

}  // namespace graft::tile
