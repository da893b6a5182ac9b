// SPDX-License-Identifier: Apache-2.0
// box_nms: rows of boxes, of which those that a better one covers are left out.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "frontend/body_graph.h"
#include "graph/custom_operator.h"
#include "import/mxnet/attributes.h"
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
  reduce covered over [i < b, q < m] fold or [p < m] {
    let x = min(corner[i, q, 2], corner[i, p, 2]) - max(corner[i, q, 0], corner[i, p, 0])
    let y = min(corner[i, q, 3], corner[i, p, 3]) - max(corner[i, q, 1], corner[i, p, 1])
    let common = max(x, 0:f32) * max(y, 0:f32)
    let first = max(corner[i, q, 2] - corner[i, q, 0], 0:f32) * max(corner[i, q, 3] - corner[i, q, 1], 0:f32)
    let second = max(corner[i, p, 2] - corner[i, p, 0], 0:f32) * max(corner[i, p, 3] - corner[i, p, 1], 0:f32)
    let same = or(id < 0, rows[i, q, max(id, 0)] == rows[i, p, max(id, 0)])
    lift and(and(p < q, kept[i, p]), and(same, common / (first + second - common) > overlap))
  }
  compute keep over [i < b, q < m] { value and(counts[i, q], not(covered[i, q])) }
  reduce changed over [] fold or [i < b, q < m] { lift xor(keep[i, q], kept[i, q]) }
})";

/// MXNet takes a box that begins left of 0 for one that is left out, and does not convert it.
constexpr char kPackedBoxes[] = R"(operator graft::PackedBoxes {
  "the rows that are kept, in their order, with their coordinates in another form, and -1 behind them"
  attribute coordinates: integer
  attribute form: integer
  input data: f32[b, n, w]
  input rows: f32[b, m, w]
  input keep: bool[b, m]
  output y: f32[b, n, w]
  reduce number over [i < b] fold add [q < m] { lift select(keep[i, q], 1:i64, 0:i64) }
  sort first, from over [i < b] along [q < m] keep [m] descending { key select(keep[i, q], m - q, -1 - q) }
  compute packed over [i < b, q < m, j < w] {
    let e = j - coordinates
    let boxed = and(e >= 0, e < 4)
    let near = rows[i, from[i, q], coordinates + mod(e, 2)]
    let far = rows[i, from[i, q], coordinates + 2 + mod(e, 2)]
    let centred = select(e < 2, (near + far) / 2, far - near)
    let cornered = select(e < 2, near - far / 2, near + far / 2)
    let other = select(form == 1, centred, cornered)
    let turned = and(form > 0, rows[i, from[i, q], coordinates] >= 0)
    value select(and(boxed, turned), other, rows[i, from[i, q], j])
  }
  compute y over [i < b, q < n, j < w] {
    value select(and(q < m, q < number[i]), packed[i, min(q, m - 1), j], -1:f32)
  }
})";

Attributes defined(const char* text, Attributes attributes) {
  attributes[std::string(kDefinitionAttribute)] = std::string(text);
  return attributes;
}

int64_t is_center(const Conversion& c, std::string_view name) {
  const std::string form = word(c, name);
  if (form != "corner" && form != "center") c.refuse(fmt::format("boxes as '{}'", form));
  return form == "center" ? 1 : 0;
}

/// Rounds of FreeBoxes until nothing changes.
ValueId free_boxes(Conversion& c, ValueId rows, ValueId counts, Attributes attributes) {
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

void box_nms(Conversion& c) {
  const ValueId data = c.tensor("data");
  const int rank = c.rank_of(data);
  if (rank < 2) c.refuse("data that has no rows");
  if (c.type_of(data) != DType::kFloat32) c.refuse("boxes that are not of float32");
  const auto width = c.size_of(data, rank - 1).as_constant(), count = c.size_of(data, rank - 2).as_constant();
  if (!width || !count) c.refuse("a number of boxes that is known only while running");
  const int64_t coordinates = integer(c, "coord_start"), score = integer(c, "score_index"), id = integer(c, "id_index");
  const int64_t most = integer(c, "topk"), in = is_center(c, "in_format"), out = is_center(c, "out_format");
  if (coordinates < 0 || coordinates + 4 > *width || score < 0 || score >= *width || id >= *width) {
    c.refuse("places that its rows do not have");
  }
  const ValueId whole = c.add("Reshape", {data, c.integers_constant({-1, *count, *width})});
  const std::vector<ValueId> ordered =
      c.add_several("OrderedBoxes", {whole},
                    defined(kOrderedBoxes, {{"score", score},
                                            {"id", std::max<int64_t>(id, -1)},
                                            {"background", real(c, "background_id")},
                                            {"threshold", real(c, "valid_thresh")},
                                            {"most", most > 0 ? most : *count}}),
                    2, "graft");
  const int64_t compared = flag(c, "force_suppress") ? -1 : std::max<int64_t>(id, -1);
  const ValueId keep = free_boxes(c, ordered[0], ordered[1],
                                  defined(kFreeBoxes, {{"coordinates", coordinates},
                                                       {"id", compared},
                                                       {"center", in},
                                                       {"overlap", real(c, "overlap_thresh")}}));
  const int64_t form = in == out ? 0 : out == 1 ? 1 : 2;
  const ValueId packed = c.add("PackedBoxes", {whole, ordered[0], keep},
                               defined(kPackedBoxes, {{"coordinates", coordinates}, {"form", form}}), "graft");
  c.give(rank == 3 ? packed : c.add("Reshape", {packed, c.add("Shape", {data})}));
}

}  // namespace

std::vector<Row> detection_rows() {
  return {{"_contrib_box_nms _contrib_box_non_maximum_suppression",
           "data, overlap_thresh=0.5, valid_thresh=0, topk=-1, coord_start=2, score_index=1, id_index=-1, "
           "background_id=-1, force_suppress=False, in_format=corner, out_format=corner", box_nms}};
}

}  // namespace graft::mxnet
