// SPDX-License-Identifier: Apache-2.0
#include "import/mxnet/box_suppression.h"

#include <memory>

#include "frontend/body_graph.h"
#include "graph/custom_operator.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

constexpr char kOrderedBoxes[] = R"(operator graft::OrderedBoxes {
  "rows whose score is above a threshold, the best first, and which of the results are such rows"
  attribute score: integer
  attribute id: integer
  attribute background: real
  attribute threshold: real
  attribute most: integer
  input data: f32[b, n, w]
  output rows: f32[b, min(n, most), w]
  output counts: bool[b, min(n, most)]
  compute keys over [i < b, t < n] {
    let named = or(id < 0, data[i, t, max(id, 0)] != background)
    value select(and(data[i, t, score] > threshold, named), data[i, t, score], -inf:f32)
  }
  sort best, from over [i < b] along [t < n] keep [min(n, most)] descending { key keys[i, t] }
  compute rows over [i < b, q < min(n, most), j < w] { value data[i, from[i, q], j] }
  compute counts over [i < b, q < min(n, most)] { value best[i, q] > -inf:f32 }
})";

/// What is kept depends on better rows alone, so that the first k rows are right after k rounds, and nothing changes
/// any more once all are: that takes as many rounds as boxes cover each other in a chain.
constexpr char kFreeBoxes[] = R"(operator graft::FreeBoxes {
  "rows that no better one that is kept covers, and whether they are others than before"
  attribute coordinates: integer
  attribute id: integer
  attribute center: integer
  attribute turned: integer
  attribute reached: integer
  attribute edge: real
  attribute overlap: real
  input rows: f32[b, m, w]
  input counts: bool[b, m]
  input kept: bool[b, m]
  output keep: bool[b, m]
  output changed: bool[]
  compute corner over [i < b, q < m, e < 4] {
    let near = rows[i, q, coordinates + mod(e, 2)]
    let far = rows[i, q, coordinates + 2 + mod(e, 2)]
    value select(center == 1, select(e < 2, near - far / 2, near + far / 2), select(e < 2, near, far))
  }
  compute area over [i < b, q < m] {
    let x = corner[i, q, 2] - corner[i, q, 0] + edge
    let y = corner[i, q, 3] - corner[i, q, 1] + edge
    value select(turned == 1, x * y, max(x, 0:f32) * max(y, 0:f32))
  }
  reduce covered over [i < b, q < m] fold or [p < m] {
    let x = min(corner[i, q, 2], corner[i, p, 2]) - max(corner[i, q, 0], corner[i, p, 0]) + edge
    let y = min(corner[i, q, 3], corner[i, p, 3]) - max(corner[i, q, 1], corner[i, p, 1]) + edge
    let common = max(x, 0:f32) * max(y, 0:f32)
    let all = area[i, q] + area[i, p] - common
    let share = common / all
    let same = or(id < 0, rows[i, q, max(id, 0)] == rows[i, p, max(id, 0)])
    let covers = select(reached == 1, and(all > 0:f32, share >= overlap), share > overlap)
    lift and(and(p < q, kept[i, p]), and(same, covers))
  }
  compute keep over [i < b, q < m] { value and(counts[i, q], not(covered[i, q])) }
  reduce changed over [] fold or [i < b, q < m] { lift xor(keep[i, q], kept[i, q]) }
})";

}  // namespace

Attributes defined(const char* text, Attributes attributes) {
  attributes[std::string(kDefinitionAttribute)] = std::string(text);
  return attributes;
}

Rows ordered_boxes(Conversion& c, ValueId rows, const Order& order) {
  const std::vector<ValueId> made = c.add_several("OrderedBoxes", {rows},
                                                  defined(kOrderedBoxes, {{"score", order.score},
                                                                          {"id", order.id},
                                                                          {"background", order.background},
                                                                          {"threshold", order.threshold},
                                                                          {"most", order.most}}),
                                                  2, "graft");
  return {made[0], made[1]};
}

// Rounds of FreeBoxes until nothing changes.
ValueId free_boxes(Conversion& c, const Rows& ordered, const Cover& cover) {
  const auto [rows, counts] = ordered;
  Attributes attributes = defined(kFreeBoxes, {{"coordinates", cover.coordinates},
                                               {"id", cover.id},
                                               {"center", int64_t{cover.center}},
                                               {"turned", int64_t{cover.turned}},
                                               {"reached", int64_t{cover.reached}},
                                               {"edge", cover.edge},
                                               {"overlap", cover.overlap}});
  Graph body;
  body.name = c.node().name;
  body.opsets[""] = kOpset;
  const Value &wide = c.graph().value(rows), &flat = c.graph().value(counts);
  frontend::add_input(body, {.name = "round", .type = DType::kInt64, .shape = Shape{}});
  frontend::add_input(body, {.name = "condition", .type = DType::kBool, .shape = Shape{}});
  const ValueId kept = frontend::add_input(body, {.name = "kept", .type = flat.type, .shape = flat.shape});
  const ValueId all = frontend::add_input(body, {.name = "rows", .type = wide.type, .shape = wide.shape});
  const ValueId given = frontend::add_input(body, {.name = "counts", .type = flat.type, .shape = flat.shape});
  const ValueId keep = body.add_value("keep", DType::kBool, flat.shape);
  const ValueId changed = body.add_value("changed", DType::kBool, Shape{});
  body.add_node({.name = "free", .domain = "graft", .op = "FreeBoxes", .attributes = std::move(attributes),
                 .inputs = {all, given, kept}, .outputs = {keep, changed}});
  body.outputs = {changed, keep};
  Attributes loop;
  loop["captures"] = std::vector<int64_t>{2};
  loop["body"] = std::shared_ptr<const Graph>(std::make_shared<Graph>(std::move(body)));
  const ValueId yes = c.cast(c.integers_constant({1}), DType::kBool);
  return c.add_several("Loop", {kNoValue, c.add("Reshape", {yes, c.integers_constant({})}), counts, rows, counts},
                       std::move(loop), 1)[0];
}

}  // namespace graft::mxnet
