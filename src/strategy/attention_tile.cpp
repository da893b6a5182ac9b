// SPDX-License-Identifier: Apache-2.0
#include "strategy/attention_tile.h"

#include <limits>

#include "fuse/rewrite_region.h"
#include "strategy/attention.h"

namespace graft::tile {

AttentionTile::AttentionTile(const Region& region, const AttentionForms& forms, const AttentionSchedule& schedule,
                             const Target& target)
    : region_(region),
      forms_(forms),
      schedule_(schedule),
      target_(target),
      builder_(region, {}),
      on_gpu_(target.kind == TargetKind::kCuda),
      type_(forms.scores->lift[0]->type) {
  // On a GPU a warp has 16 rows.
  builder_.program.threads = on_gpu_ ? static_cast<int>(schedule.queries) * 2 : 0;
}

Expr AttentionTile::minus_infinity() const { return make_constant(type_, -std::numeric_limits<double>::infinity()); }

std::vector<Expr> AttentionTile::take_conditions(Expr& logits) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<Expr> found;
  while (is_call(logits, Intrinsic::kSelect)) {
    const Expr otherwise = logits->args[2], condition = logits->args[0];
    if (otherwise->kind != ExprKind::kConstant || otherwise->real != -infinity) break;
    std::vector<Expr> conditions = {condition};
    while (!conditions.empty()) {
      const Expr each = conditions.back();
      conditions.pop_back();
      if (is_call(each, Intrinsic::kAnd)) {
        conditions.insert(conditions.end(), each->args.begin(), each->args.end());
      } else {
        found.push_back(each);
      }
    }
    logits = Expr(logits->args[1]);
  }
  return found;
}

Expr AttentionTile::keys_seen(const Expr& row) const {
  Expr logits = forms_.logits, seen;
  for (const Expr& condition : take_conditions(logits)) {
    if (const Expr limit = key_limit(condition, row)) seen = seen ? min(seen, limit) : limit;
  }
  return seen;
}

Expr AttentionTile::key_limit(const Expr& condition, const Expr& row) const {
  const bool inclusive = is_call(condition, Intrinsic::kLe);
  if (!inclusive && !is_call(condition, Intrinsic::kLt)) return {};
  const int query = forms_.common.back().variable->variable;
  const auto bound = affine(condition->args[1]);
  if (!equal(condition->args[0], forms_.logits_key) || !bound) return {};
  const Size growth = bound->coefficient(query);
  if (!growth.as_constant() || *growth.as_constant() < 0) return {};
  if (uses_variable(condition->args[1], forms_.logits_key->variable)) return {};
  Replacements last = fixed_;
  last.emplace_back(query, row);
  return substitute(condition->args[1], last) + make_index(inclusive ? 1 : 0);
}

void AttentionTile::make_grid() {
  const auto& common = forms_.common;
  for (size_t i = 0; i + 1 < common.size(); ++i) {
    fixed_.emplace_back(common[i].variable->variable, builder_.add_grid(common[i].extent));
  }
  // Nearly equal tiles of query rows on a CPU, whole ones on a GPU, whose matrix units pad them anyhow.
  const Size rows = common.back().extent;
  const Size tiles = max(ceil_div(rows, schedule_.queries), Size(1));
  row_step_ = on_gpu_ ? Size(schedule_.queries) : ceil_div(rows, tiles);
  Expr tile = tiles.is(1) ? make_index(0) : builder_.add_grid(tiles);
  // Where later queries see more keys, they come first: short blocks fill up the end.
  row_begin_ = tile * make_size(row_step_);
  if (on_gpu_ && !tiles.is(1) && keys_seen(row_begin_)) {
    tile = make_size(tiles - 1) - tile;
    row_begin_ = tile * make_size(row_step_);
  }
  rows_ = rows;
}

For AttentionTile::key_loop() {
  For loop{.axis = make_axis(ceil_div(key_axis().extent, schedule_.keys)), .stages = on_gpu_ ? 2 : 1, .body = {}};
  if (const Expr seen = keys_seen(row_begin_ + make_size(row_step_) - make_index(1))) {
    const Expr tiles = floor_div(seen + make_index(schedule_.keys - 1), make_index(schedule_.keys));
    loop.axis.extent = min(loop.axis.extent, max(tiles, make_index(0)));
  }
  key_begin_ = loop.axis.variable * make_index(schedule_.keys);
  return loop;
}

Axis AttentionTile::row_axis() const {
  if (on_gpu_ && rows_.is_multiple_of(schedule_.queries)) return make_axis(Size(schedule_.queries));
  return make_axis(min(make_size(row_step_), make_size(rows_) - row_begin_), schedule_.queries);
}
Axis AttentionTile::column_axis() const {
  const auto extent = key_axis().extent.as_constant();
  if (extent && *extent % schedule_.keys == 0) return make_axis(Size(schedule_.keys));
  return make_axis(min(make_index(schedule_.keys), make_size(key_axis().extent) - key_begin_), schedule_.keys);
}

AttentionTile::Replacements AttentionTile::at(const Expr& row, const Expr& key_variable, const Expr& column) const {
  Replacements result = fixed_;
  result.emplace_back(forms_.common.back().variable->variable, row_begin_ + row);
  if (key_variable) result.emplace_back(key_variable->variable, key_begin_ + column);
  return result;
}

Expr AttentionTile::convert(const Expr& e, const Replacements& replacements, const Expr& row,
                            const Expr& column) const {
  const Expr tiled = transform(e, [&](const Expr& node) -> Expr {
    if (node->kind != ExprKind::kLoad) return {};
    if (is_score_tensor(node->tensor)) return local(scores_, {row, column});
    if (node->tensor == forms_.largest->outputs[0]) return local(largest_, {row});
    if (node->tensor == forms_.sum->outputs[0]) return local(sum_, {row});
    if (node->tensor == forms_.weighted->outputs[0]) return local(weighted_, {row, column});
    return {};
  });
  const Expr placed = substitute(tiled, replacements);
  return transform(placed, [&](const Expr& node) -> Expr {
    // Scratch loads carry their buffer number below zero until region tensors have become buffers.
    if (node->kind != ExprKind::kLoad) return {};
    if (node->tensor < 0) return make_load(-1 - node->tensor, node->type, node->args);
    return make_load(builder_.buffer_of(node->tensor), node->type, node->args);
  });
}

bool AttentionTile::is_score_tensor(int tensor) const {
  return tensor == forms_.scores->outputs[0] || (forms_.biased && tensor == forms_.biased->output) ||
         tensor == forms_.exponentials->output;
}

void AttentionTile::add_row_map(Body& body, const Axis& i, int buffer,
                                const std::function<Expr(const Expr&)>& value) const {
  body.push_back({Map{{i}, {}, {{buffer, {i.variable}, value(i.variable), ScatterMode::kSet}}}});
}

void AttentionTile::add_row_reduce(Body& body, const Axis& i, const Axis& j, int buffer, Intrinsic combine) const {
  Reduce reduce;
  reduce.axes = {i}, reduce.reduced = {j};
  reduce.lift = {load(scores_, {i.variable, j.variable})};
  reduce.monoid = make_monoid(combine, type_);
  reduce.outputs = {{buffer, {i.variable}, {}, ScatterMode::kSet}};
  body.push_back({std::move(reduce)});
}

void AttentionTile::add_constant(const Axis& i, const Axis& j, int fragment, DType type, double value) {
  builder_.add({Map{{i, j}, {}, {{fragment, {i.variable, j.variable}, make_constant(type, value)}}}});
}

void AttentionTile::add_result(const Compute& out, const Expr& value) {
  const Axis i = row_axis(), e = make_axis(value_axis().extent);
  Replacements where = at(i.variable);
  where.emplace_back(out.axes.back().variable->variable, e.variable);
  std::vector<Expr> indices;
  for (const graft::Axis& axis : out.axes) indices.push_back(substitute(axis.variable, where));
  const Expr placed = convert(value, where, i.variable, e.variable);
  builder_.add({Map{{i, e}, {}, {builder_.store(out.output, indices, placed)}}});
}

}  // namespace graft::tile
