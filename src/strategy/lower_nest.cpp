// SPDX-License-Identifier: Apache-2.0
// The general strategy: a grid over the axes common to all forms; inside a grid point the forms run one after the
// other, their intermediate tensors in scratch. It lowers every region; other strategies are for speed.
#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "fuse/rewrite_region.h"
#include "tile/block_rules.h"
#include "strategy/bounded_indices.h"
#include "strategy/choose_before.h"
#include "tile/exact_indices.h"
#include "strategy/map_tile.h"
#include "strategy/nest_direction.h"
#include "strategy/nest_lowering.h"
#include "strategy/separate_windows.h"

namespace graft::tile {
namespace {

/// Whether the result is the same, to the last bit, in whatever order the updates come.
bool takes_any_order(const Scatter& form) {
  if (form.mode == ScatterMode::kSet) return false;
  return form.mode == ScatterMode::kMin || form.mode == ScatterMode::kMax || is_integer(form.value->type);
}

constexpr int kThreads = 256, kMostThreads = 1024;  // of a block on a GPU
constexpr int64_t kLongRow = 4096;                   // elements that are sorted
constexpr int64_t kScannedRows = 8;                  // of a CPU's grid point: chains that do not wait for each other
constexpr int64_t kScannedColumns = 2;  // times as many columns as of folds: they are read and written in rows

// Blocks among which the rows of a scatter's result are shared out, each of which goes over all updates; and elements
// of the result that one block should have at least.
constexpr int64_t kMostOwners = 128, kLeastOwned = 1024;
// The same where a block makes its updates one after the other.
constexpr int64_t kMostOrderedOwners = 512, kLeastOrderedOwned = 32;

}  // namespace

NestLowering::NestLowering(const Region& region, int threads, const Layouts& layouts, int64_t lanes)
    : region_(region), layouts_(layouts), builder_(region, layouts), lanes_(lanes) {
  builder_.program.threads = threads;
  common_ = common_axes(region_);
}

Lowered NestLowering::run(const NestSchedule& schedule) {
  const bool is_cpu = builder_.program.threads == 0;
  if (is_cpu) find_folded_users();
  const bool is_map = is_pure_map();
  const auto tile = is_cpu && is_chain_of_maps() ? map_tile(region_, common_, axes_of(region_.forms.back()).back())
                                                 : std::nullopt;
  lanes_last_ = !is_map && !tile;
  if (is_map) split(common_.size() - 1, schedule.chunk);
  if (is_map || tile) {
    for (size_t n = common_.size(); tile && n-- > 0;) {
      if (common_[n].variable->variable == tile->variable) split(n, tile->points);
    }
  } else if (schedule.lanes > 1 && nest_direction(region_, common_, lanes_).columns) {
    split(common_.size() - 1, is_cpu && is_pure_scan() ? kScannedColumns * schedule.lanes : schedule.lanes);
  } else if (is_cpu && is_pure_scan()) {
    split(common_.size() - 1, kScannedRows);
  }
  return finish();
}

Lowered NestLowering::finish() {
  add_grid_axes();
  find_folded_bases();
  place_intermediates();
  for (const Form& form : region_.forms) {
    if (!is_folded(form)) std::visit([&](const auto& f) { lower(f); }, form);
  }
  return builder_.finish(region_.name);
}

bool NestLowering::is_pure_map() const {
  return !common_.empty() && std::all_of(region_.forms.begin(), region_.forms.end(), [&](const Form& form) {
    return std::holds_alternative<Compute>(form) && axes_of(form).size() == common_.size();
  });
}

bool NestLowering::is_chain_of_maps() const {
  return !common_.empty() && !axes_of(region_.forms.back()).empty() &&
         std::all_of(region_.forms.begin(), region_.forms.end(),
                     [](const Form& form) { return std::holds_alternative<Compute>(form); });
}

bool NestLowering::is_pure_scan() const {
  return !common_.empty() && std::all_of(region_.forms.begin(), region_.forms.end(), [&](const Form& form) {
    return std::holds_alternative<graft::Scan>(form) || is_folded(form);
  });
}

void NestLowering::split(size_t position, int64_t tile) {
  const graft::Axis axis = common_[position];
  common_.erase(common_.begin() + static_cast<std::ptrdiff_t>(position));
  for (Tiled& behind : tiled_) --behind.position;
  Tiled tiled;
  tiled.variable = axis.variable->variable;
  tiled.position = position;
  const auto extent = axis.extent.as_constant();
  if (tile == 0 || (extent && *extent <= tile)) {
    tiled.local = make_axis(axis.extent);
    tiled.index = tiled.local.variable;
  } else {
    tiled.tiles = ceil_div(axis.extent, tile);
    tiled.tile = make_variable();
    const Expr begin = tiled.tile * make_index(tile);
    const bool is_cpu = builder_.program.threads == 0;
    const bool whole = axis.extent.is_multiple_of(tile) && (in_order_ || is_cpu);
    tiled.local = whole ? make_axis(Size(tile))
                        : make_axis(min(make_index(tile), make_size(axis.extent) - begin), tile);
    tiled.index = begin + tiled.local.variable;
  }
  tiled_.insert(tiled_.begin(), std::move(tiled));
}

void NestLowering::add_grid_axes() {
  const bool is_cpu = builder_.program.threads == 0;
  for (size_t n = 0; n <= common_.size(); ++n) {
    for (Tiled& tiled : tiled_) {
      if (is_cpu ? tiled.position == n : n == common_.size()) place_tile(tiled);
    }
    if (n < common_.size()) add_grid_axis(common_[n]);
  }
}

void NestLowering::place_tile(Tiled& tiled) {
  if (tiled.tile) {
    const std::pair<int, Expr> place{tiled.tile->variable, builder_.add_grid(tiled.tiles)};
    tiled.index = substitute(tiled.index, {place});
    tiled.local.extent = substitute(tiled.local.extent, {place});
  }
  replacements_.emplace_back(tiled.variable, tiled.index);
}

void NestLowering::add_grid_axis(const graft::Axis& axis) {
  replacements_.emplace_back(axis.variable->variable, builder_.add_grid(axis.extent));
}

bool NestLowering::in_grid(int variable) const {
  return std::any_of(common_.begin(), common_.end(),
                     [&](const graft::Axis& axis) { return axis.variable->variable == variable; });
}

void NestLowering::place_intermediates() {
  for (const Form& form : region_.forms) {
    const auto defined = defined_tensors(form);
    for (const int tensor : defined) {
      if (builder_.buffer_of(tensor) >= 0 || find_folded(tensor)) continue;
      const TensorDecl& decl = region_.tensors[tensor];
      std::vector<bool> dropped(decl.shape.size());
      Shape shape;
      const bool has_axes = !std::holds_alternative<Scatter>(form) && !std::holds_alternative<Compact>(form);
      const auto& axes = axes_of(form);
      for (size_t d = 0; d < decl.shape.size(); ++d) {
        const bool own = !has_axes || d >= axes.size();
        dropped[d] = !own && in_grid(axes[d].variable->variable);
        const Tiled* tiled = own ? nullptr : find_tiled(axes[d].variable->variable);
        if (tiled) local_dimensions_.push_back({tensor, d, tiled->local.variable});
        if (!dropped[d]) shape.push_back(tiled && tiled->local.bound > 0 ? Size(tiled->local.bound) : decl.shape[d]);
      }
      builder_.bind(tensor, builder_.add_scratch(decl.name, decl.type, shape), dropped);
    }
  }
}

const NestLowering::Tiled* NestLowering::find_tiled(int variable) const {
  const auto found =
      std::find_if(tiled_.begin(), tiled_.end(), [&](const Tiled& tiled) { return tiled.variable == variable; });
  return found == tiled_.end() ? nullptr : &*found;
}

std::vector<Axis> NestLowering::own_axes(const std::vector<graft::Axis>& axes, Replacements& into) {
  std::vector<Axis> own, lanes;
  for (const graft::Axis& axis : axes) {
    const int v = axis.variable->variable;
    if (in_grid(v)) continue;
    const Tiled* tiled = find_tiled(v);
    const Axis axis_here =
        tiled ? Axis{make_variable(), tiled->local.extent, tiled->local.bound} : make_axis(axis.extent);
    into.emplace_back(tiled ? tiled->local.variable->variable : v, axis_here.variable);
    (tiled && lanes_last_ ? lanes : own).push_back(axis_here);
  }
  own.insert(own.end(), lanes.begin(), lanes.end());
  return own;
}

Expr NestLowering::convert(const Expr& e, const Replacements& own) const {
  const Expr local = transform(e, [&](const Expr& node) -> Expr {
    if (node->kind != ExprKind::kLoad) return {};
    std::vector<Expr> indices = node->args;
    const bool packed = node->tensor < static_cast<int>(layouts_.size()) && layouts_[node->tensor];
    if (packed) {
      const Shape& shape = region_.tensors[node->tensor].shape;
      return make_load(node->tensor, node->type, packed_indices(*layouts_[node->tensor], shape, indices));
    }
    bool changed = false;
    for (const LocalDimension& local : local_dimensions_) {
      if (local.tensor != node->tensor) continue;
      indices[local.dimension] = local.variable;
      changed = true;
    }
    return changed ? make_load(node->tensor, node->type, std::move(indices)) : Expr();
  });
  const Expr here = builder_.to_buffers(substitute(substitute(local, replacements_), own));
  return in_order_ || builder_.program.threads == 0 ? exact_indices(here) : here;
}

Store NestLowering::store_to(int tensor, const std::vector<graft::Axis>& axes, const Replacements& own,
                             const Expr& value, const std::vector<Expr>& extra) const {
  std::vector<Expr> indices;
  for (size_t d = 0; d < axes.size(); ++d) {
    Expr index = axes[d].variable;
    for (const LocalDimension& local : local_dimensions_) {
      if (local.tensor == tensor && local.dimension == d) index = local.variable;
    }
    indices.push_back(substitute(substitute(index, replacements_), own));
  }
  indices.insert(indices.end(), extra.begin(), extra.end());
  return builder_.store(tensor, indices, value);
}

void NestLowering::lower(const Compute& form) {
  Replacements own;
  Map map{.axes = own_axes(form.axes, own), .condition = {}, .stores = {}};
  const Expr value = convert(form.value, own);
  map.stores.push_back(store_to(form.output, form.axes, own, in_order_ ? stage_transposed(map.axes, value) : value));
  if (builder_.program.threads > 0) return builder_.add({std::move(map)});
  for (Statement& statement : choose_before(map)) builder_.add(std::move(statement));
}

namespace {

/// Rows of results that fold the same few elements of a local buffer each: side by side, so that no fold waits for the
/// one before.
int64_t points_beside(const Reduce& reduce) {
  constexpr int64_t kPoints = 4, kFewTaps = 64;
  int64_t taps = 1;
  for (const Axis& axis : reduce.reduced) taps *= axis.bound > 0 && axis.bound <= kFewTaps ? axis.bound : kFewTaps + 1;
  const bool reads_only = reduce.lift.size() == 1 && reduce.lift[0]->kind == ExprKind::kLoad;
  return reduce.axes.size() > 1 && taps <= kFewTaps && reads_only ? kPoints : 1;
}

}  // namespace

void NestLowering::lower(const graft::Reduce& form) {
  Replacements own;
  Reduce reduce;
  reduce.axes = own_axes(form.axes, own);
  for (const graft::Axis& axis : form.reduced) {
    reduce.reduced.push_back(make_axis(axis.extent));
    own.emplace_back(axis.variable->variable, reduce.reduced.back().variable);
  }
  for (const Expr& lift : form.lift) reduce.lift.push_back(convert(lift, own));
  reduce.monoid = form.monoid;
  if (in_order_) shorten_guarded(reduce);
  if (builder_.program.threads == 0) reduce.points = points_beside(reduce);
  for (const int tensor : form.outputs) reduce.outputs.push_back(store_to(tensor, form.axes, own, {}));
  builder_.add({std::move(reduce)});
}

void NestLowering::scan_in_steps(const graft::Scan& form) {
  Shape state_shape;
  Replacements shape_own;
  for (const Axis& axis : own_axes(form.axes, shape_own)) {
    const auto size = axis.bound > 0 ? std::optional(Size(axis.bound)) : size_of(axis.extent);
    state_shape.push_back(*size);
  }
  std::vector<int> state, next;
  for (size_t i = 0; i < form.state.size(); ++i) {
    state.push_back(builder_.add_scratch("state", form.state[i]->type, state_shape));
    next.push_back(builder_.add_scratch("next", form.state[i]->type, state_shape));
  }
  const auto copy = [&](const std::vector<int>& to, const auto& value_of) {
    Replacements own;
    Map map{.axes = own_axes(form.axes, own), .condition = {}, .stores = {}};
    for (size_t i = 0; i < to.size(); ++i) {
      map.stores.push_back({to[i], variables(map.axes), value_of(i, own, variables(map.axes)), ScatterMode::kSet});
    }
    return Statement{std::move(map)};
  };
  builder_.add(copy(state, [&](size_t i, const Replacements& own, const std::vector<Expr>&) {
    return convert(form.initial[i], own);
  }));
  For loop{.axis = make_axis(form.axis.extent), .stages = 1, .body = {}};
  const Expr t = form.reverse ? make_size(form.axis.extent) - make_index(1) - loop.axis.variable : loop.axis.variable;
  const auto in_step = [&](const Expr& e, Replacements own, const std::vector<int>& from, const std::vector<Expr>& at) {
    own.emplace_back(form.axis.variable->variable, t);
    Expr result = convert(e, own);
    Replacements states;
    for (size_t i = 0; i < form.state.size(); ++i) {
      states.emplace_back(form.state[i]->variable, make_load(from[i], form.state[i]->type, at));
    }
    return substitute(result, states);
  };
  const Statement step = copy(next, [&](size_t i, const Replacements& own, const std::vector<Expr>& at) {
    return in_step(form.step[i], own, state, at);
  });
  Replacements own;
  Map emit{.axes = own_axes(form.axes, own), .condition = {}, .stores = {}};
  for (size_t i = 0; i < form.outputs.size(); ++i) {
    const Expr value = in_step(form.emit[i], own, form.exclusive ? state : next, variables(emit.axes));
    emit.stores.push_back(store_to(form.outputs[i], form.axes, own, value, {t}));
  }
  loop.body.push_back(step);
  loop.body.push_back({std::move(emit)});
  loop.body.push_back(copy(state, [&](size_t i, const Replacements&, const std::vector<Expr>& at) {
    return make_load(next[i], form.state[i]->type, at);
  }));
  builder_.add({std::move(loop)});
}

std::optional<Size> NestLowering::size_of(const Expr& extent) {
  const auto a = affine(extent);
  return a && a->coefficients.empty() ? std::optional(a->offset) : std::nullopt;
}

void NestLowering::find_folded_bases() {
  for (const Form& form : region_.forms) {
    const auto* scatter = std::get_if<Scatter>(&form);
    if (!scatter || builder_.buffer_of(scatter->base) >= 0) continue;
    size_t users = 0;
    for (const Form& each : region_.forms) {
      const auto reads = read_tensors(each);
      users += static_cast<size_t>(std::count(reads.begin(), reads.end(), scatter->base));
    }
    for (const Form& each : region_.forms) {
      const auto* compute = std::get_if<Compute>(&each);
      if (users == 1 && compute && compute->output == scatter->base) folded_.push_back({scatter->base, compute});
    }
  }
}

std::optional<NestLowering::OwnedRows> NestLowering::share_rows(const Scatter& form) {
  const Shape& shape = region_.tensors[form.output].shape;
  const auto elements = element_count(shape).as_constant();
  if (builder_.program.threads == 0 || !elements || shape.empty()) return std::nullopt;
  if (!takes_any_order(form)) return share_ordered(shape);
  const int64_t rows = shape[0].constant(), least = kLeastOwned * rows / std::max<int64_t>(*elements, 1);
  const int64_t owned = std::max({(rows + kMostOwners - 1) / kMostOwners, least, int64_t{1}});
  if (owned >= rows) return std::nullopt;
  const Expr begin = builder_.add_grid(ceil_div(shape[0], owned)) * make_index(owned);
  const Expr end = min(begin + make_index(owned), make_size(shape[0]));
  return OwnedRows{.leading = {}, .begin = begin, .end = end, .most = owned};
}

/// Leading axes whole, as long as there are blocks for them, then a part of the one behind.
std::optional<NestLowering::OwnedRows> NestLowering::share_ordered(const Shape& shape) {
  int64_t blocks = std::min(kMostOrderedOwners, element_count(shape).constant() / kLeastOrderedOwned);
  if (blocks <= 1) return std::nullopt;
  OwnedRows owned;
  size_t axis = 0;
  for (; axis + 1 < shape.size() && shape[axis].constant() <= blocks; ++axis) {
    owned.leading.push_back(builder_.add_grid(shape[axis]));
    blocks /= shape[axis].constant();
  }
  owned.most = (shape[axis].constant() + blocks - 1) / blocks;
  owned.begin = builder_.add_grid(ceil_div(shape[axis], owned.most)) * make_index(owned.most);
  owned.end = min(owned.begin + make_index(owned.most), make_size(shape[axis]));
  return owned;
}

Expr NestLowering::is_owned(const OwnedRows& owned, const std::vector<Expr>& indices) {
  const Expr& row = indices[owned.leading.size()];
  Expr result = ge(row, owned.begin) && lt(row, owned.end);
  for (size_t d = owned.leading.size(); d-- > 0;) result = eq(indices[d], owned.leading[d]) && result;
  return result;
}

void NestLowering::copy_base(const Scatter& form, const std::optional<OwnedRows>& owned) {
  const TensorDecl& decl = region_.tensors[form.output];
  Map copy;
  const size_t leading = owned ? owned->leading.size() : 0;
  for (size_t d = leading; d < decl.shape.size(); ++d) copy.axes.push_back(make_axis(decl.shape[d]));
  if (owned) copy.axes[0] = make_axis(owned->end - owned->begin, owned->most);
  std::vector<Expr> at = variables(copy.axes);
  if (owned) {
    at[0] = owned->begin + at[0];
    at.insert(at.begin(), owned->leading.begin(), owned->leading.end());
  }
  Expr value = make_load(form.base, decl.type, at);
  if (const auto compute = find_folded(form.base)) {
    Replacements here;
    for (size_t d = 0; d < at.size(); ++d) here.emplace_back((*compute)->axes[d].variable->variable, at[d]);
    value = substitute((*compute)->value, here);
  }
  copy.stores.push_back(builder_.store(form.output, at, builder_.to_buffers(value)));
  builder_.add({std::move(copy)});
}

void NestLowering::lower(const Scatter& form) {
  const std::optional<OwnedRows> owned = share_rows(form);
  copy_base(form, owned);
  Replacements own;
  const bool ordered = builder_.program.threads == 0 || !takes_any_order(form);
  Map map{.axes = own_axes(form.axes, own), .condition = {}, .stores = {}, .ordered = ordered};
  if (form.condition) map.condition = convert(form.condition, own);
  std::vector<Expr> indices;
  for (const Expr& index : form.indices) indices.push_back(convert(index, own));
  if (owned) {
    const Expr is_own = is_owned(*owned, indices);
    map.condition = map.condition ? map.condition && is_own : is_own;
  }
  Store store = builder_.store(form.output, indices, convert(form.value, own));
  store.mode = form.mode;
  map.stores.push_back(std::move(store));
  builder_.add({std::move(map)});
}

void NestLowering::lower(const Sort& form) {
  const auto count = form.count.as_constant();
  if (in_order_ && count && *count > 0 && *count <= kMostSelected && bit_width(form.key->type) <= 32) {
    return lower_as_selection(form, *count);
  }
  const auto length = form.axis.extent.as_constant();
  // Of long rows on a CPU: those that are wanted and as many candidates wait in `positions`.
  const bool some = builder_.program.threads == 0 && count && *count > 0 && bit_width(form.key->type) <= 32 &&
                    (!length || 4 * *count <= *length);
  const int keys = builder_.add_scratch("keys", form.key->type, {form.axis.extent});
  const int positions =
      builder_.add_scratch("positions", DType::kInt64, {some ? Size(2 * *count) : form.axis.extent});
  Replacements own;
  const std::vector<Axis> axes = own_axes(form.axes, own);
  Body body;
  Map fill{.axes = {make_axis(form.axis.extent)}, .condition = {}, .stores = {}};
  Replacements with_row = own;
  with_row.emplace_back(form.axis.variable->variable, fill.axes[0].variable);
  fill.stores.push_back({keys, {fill.axes[0].variable}, convert(form.key, with_row), ScatterMode::kSet});
  if (!some) fill.stores.push_back({positions, {fill.axes[0].variable}, fill.axes[0].variable, ScatterMode::kSet});
  body.push_back({std::move(fill)});
  SortRow sort{keys, positions, {make_index(0)}, {make_index(0)}, make_size(form.axis.extent), form.descending, {}};
  if (some) sort.count = make_index(*count);
  body.push_back({std::move(sort)});
  Map out{.axes = {make_axis(form.count)}, .condition = {}, .stores = {}};
  const Expr r = out.axes[0].variable;
  out.stores.push_back(store_to(form.outputs[0], form.axes, own, make_load(keys, form.key->type, {r}), {r}));
  out.stores.push_back(store_to(form.outputs[1], form.axes, own, make_load(positions, DType::kInt64, {r}), {r}));
  body.push_back({std::move(out)});
  for (size_t i = axes.size(); i-- > 0;) {
    Body inner = std::move(body);
    body.clear();
    body.push_back({For{.axis = axes[i], .body = std::move(inner)}});
  }
  for (Statement& statement : body) builder_.add(std::move(statement));
}

void NestLowering::lower(const Compact& form) {
  Buffer buffer{.name = "count",
                .type = DType::kInt64,
                .scope = Scope::kGlobal,
                .shape = {Size(1)},
                .strides = {Size(1)},
                .written = true};
  const int count = static_cast<int>(builder_.program.buffers.size());
  builder_.program.buffers.push_back(std::move(buffer));
  const Expr zero = make_index(0), kept = make_load(count, DType::kInt64, {zero});
  builder_.add({Map{.axes = {}, .condition = {}, .stores = {{count, {zero}, zero, ScatterMode::kSet}}}});
  Replacements own;
  Map map{.axes = own_axes(form.axes, own), .condition = convert(form.condition, own), .stores = {}, .ordered = true};
  for (size_t i = 0; i < form.outputs.size(); ++i) {
    map.stores.push_back(builder_.store(form.outputs[i], {kept}, convert(form.values[i], own)));
  }
  map.stores.push_back({count, {zero}, make_index(1), ScatterMode::kAdd});
  builder_.add({std::move(map)});
}

Lowered lower_nest(const Region& region, const Layouts& layouts, const NestSchedule& schedule, const Target& target) {
  // What one block does alone, with all that it has.
  const bool alone = std::any_of(region.forms.begin(), region.forms.end(), [](const Form& form) {
    const auto* sort = std::get_if<Sort>(&form);
    const bool long_rows = sort && sort->axis.extent.as_constant().value_or(INT64_MAX) > kLongRow;
    return std::holds_alternative<Scatter>(form) || std::holds_alternative<Compact>(form) || long_rows;
  });
  const int threads = alone ? kMostThreads : kThreads;
  if (target.kind == TargetKind::kCuda) return NestLowering(region, threads, layouts).run(schedule);
  const Region separated = bounded_indices(separate_windows(region));
  return NestLowering(separated, 0, layouts, target.vector_bits / 32).run(schedule);
}

}  // namespace graft::tile
