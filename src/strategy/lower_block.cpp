// SPDX-License-Identifier: Apache-2.0
// Tiles for the threads of a block: a grid over tiles of the last common axes; what is contiguous along another axis
// than the last goes through a tile of shared memory, and maps of a scan's results go with the scan.
#include <algorithm>
#include <set>

#include "tile/block_rules.h"
#include "tile/enlarged_maps.h"
#include "strategy/nest_lowering.h"

namespace graft::tile {

Lowered NestLowering::run(const BlockSchedule& schedule) {
  in_order_ = true, lanes_last_ = false;
  find_folded_users();
  const int64_t tiles[] = {schedule.x, schedule.y, schedule.z};
  const size_t count = common_.size();
  for (size_t i = 0; i < std::min<size_t>(count, 3); ++i) {
    if (tiles[i] != 1) split(count - 1 - i, tiles[i]);
  }
  return finish();
}

Expr NestLowering::stage_transposed(const std::vector<Axis>& axes, const Expr& value) {
  std::vector<std::pair<const ExprNode*, Expr>> staged;
  for (const Expr& load : loads_at_every_point(value)) {
    const int along = axis_of_neighbours(builder_.program, axes, load);
    if (along >= 0) staged.emplace_back(load.get(), stage(axes, static_cast<size_t>(along), load));
  }
  if (staged.empty()) return value;
  return transform(value, [&](const Expr& node) -> Expr {
    for (const auto& [from, to] : staged) {
      if (from == node.get()) return to;
    }
    return {};
  });
}

Expr NestLowering::stage(const std::vector<Axis>& axes, size_t along, const Expr& load) {
  Map fill;
  Shape shape;
  Replacements fresh;
  std::vector<Expr> here;
  for (size_t i = 0; i < axes.size() + 1; ++i) {
    const size_t axis = i < axes.size() ? i : along;
    if (i == along) continue;
    fill.axes.push_back({make_variable(), axes[axis].extent, axes[axis].bound});
    fresh.emplace_back(axes[axis].variable->variable, fill.axes.back().variable);
    shape.emplace_back(axes[axis].bound);
    here.push_back(axes[axis].variable);
  }
  const int tile = builder_.add_scratch("tile", load->type, shape);
  fill.stores.push_back({tile, variables(fill.axes), substitute(load, fresh), ScatterMode::kSet});
  builder_.add({std::move(fill)});
  return make_load(tile, load->type, here);
}

void NestLowering::lower(const graft::Scan& form) {
  if (builder_.program.threads > 0 && !in_order_) return scan_in_steps(form);
  Replacements own;
  Scan scan{.axes = own_axes(form.axes, own), .axis = make_axis(form.axis.extent)};
  scan.exclusive = form.exclusive, scan.reverse = form.reverse, scan.state = form.state;
  for (const Expr& initial : form.initial) scan.initial.push_back(convert(initial, own));
  own.emplace_back(form.axis.variable->variable, scan.axis.variable);
  for (const Expr& step : form.step) scan.step.push_back(convert(step, own));
  for (size_t i = 0; i < form.outputs.size(); ++i) {
    if (const auto user = find_folded(form.outputs[i])) {
      scan.stores.push_back(store_of_user(form, i, *user, own));
    } else {
      scan.stores.push_back(
          store_to(form.outputs[i], form.axes, own, convert(form.emit[i], own), {scan.axis.variable}));
    }
  }
  builder_.add({std::move(scan)});
}

std::optional<const Compute*> NestLowering::find_folded(int tensor) const {
  for (const Folded& each : folded_) {
    if (each.tensor == tensor) return each.user;
  }
  return std::nullopt;
}

Store NestLowering::store_of_user(const graft::Scan& form, size_t output, const Compute* user,
                                  const Replacements& own) const {
  const int tensor = form.outputs[output];
  Replacements to_scan;  // variable of the user -> of the scan
  const Expr value = transform(user->value, [&](const Expr& node) -> Expr {
    if (node->kind != ExprKind::kLoad || node->tensor != tensor) return {};
    for (size_t d = 0; d < node->args.size(); ++d) {
      const Expr& scanned = d < form.axes.size() ? form.axes[d].variable : form.axis.variable;
      to_scan.emplace_back(node->args[d]->variable, scanned);
    }
    return form.emit[output];
  });
  const auto here = [&](const Expr& e) { return convert(substitute(e, to_scan), own); };
  std::vector<Expr> indices;
  for (const graft::Axis& axis : user->axes) indices.push_back(here(axis.variable));
  return builder_.store(user->output, indices, here(value));
}

void NestLowering::find_folded_users() {
  for (const Form& form : region_.forms) {
    const auto* scan = std::get_if<graft::Scan>(&form);
    if (!scan) continue;
    for (const int tensor : scan->outputs) {
      if (const Compute* user = only_user(tensor, scan->axes.size() + 1)) folded_.push_back({tensor, user});
    }
  }
}

const Compute* NestLowering::only_user(int tensor, size_t rank) const {
  const auto is = [&](int t) { return t == tensor; };
  if (std::any_of(region_.outputs.begin(), region_.outputs.end(), is)) return nullptr;
  const Compute* user = nullptr;
  int users = 0;
  for (const Form& form : region_.forms) {
    const auto reads = read_tensors(form);
    if (std::none_of(reads.begin(), reads.end(), is)) continue;
    ++users;
    user = std::get_if<Compute>(&form);
  }
  const bool global =
      user && std::find(region_.outputs.begin(), region_.outputs.end(), user->output) != region_.outputs.end();
  if (users != 1 || !global || user->axes.size() != rank) return nullptr;
  bool plain = true;
  int loads = 0;
  for_each(user->value, [&](const Expr& node) {
    if (node->kind != ExprKind::kLoad) return;
    if (node->tensor != tensor) {
      plain = false;  // what else it reads may not be there yet
      return;
    }
    ++loads;
    std::set<int> seen;
    for (const Expr& index : node->args) {
      plain = plain && index->kind == ExprKind::kVariable && seen.insert(index->variable).second;
    }
  });
  return plain && loads == 1 ? user : nullptr;
}

bool NestLowering::is_folded(const Form& form) const {
  const auto* compute = std::get_if<Compute>(&form);
  return compute &&
         std::any_of(folded_.begin(), folded_.end(), [&](const Folded& each) { return each.user == compute; });
}

void NestLowering::lower_as_selection(const Sort& form, int64_t count) {
  Replacements own;
  Select select{.axes = own_axes(form.axes, own), .axis = make_axis(form.axis.extent), .rank = make_variable()};
  select.count = count, select.descending = form.descending;
  select.keys = store_to(form.outputs[0], form.axes, own, {}, {select.rank});
  select.positions = store_to(form.outputs[1], form.axes, own, {}, {select.rank});
  own.emplace_back(form.axis.variable->variable, select.axis.variable);
  select.key = convert(form.key, own);
  builder_.add({std::move(select)});
}

Lowered lower_block(const Region& region, const Layouts& layouts, const BlockSchedule& schedule, const Target& target) {
  if (target.kind != TargetKind::kCuda) return "tiles for the threads of a block are for GPUs";
  for (size_t t = 0; t < layouts.size(); ++t) {
    if (!layouts[t]) continue;
    const auto extent = region.tensors[t].shape[static_cast<size_t>(layouts[t]->dim)].as_constant();
    if (!extent || *extent > layouts[t]->lanes) return "'" + region.tensors[t].name + "' lies in several panels";
  }
  const Region inlined = inline_enlarged(region);
  return NestLowering(inlined, static_cast<int>(32 * schedule.warps), layouts).run(schedule);
}

}  // namespace graft::tile
