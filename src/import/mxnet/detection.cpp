// SPDX-License-Identifier: Apache-2.0
// Boxes of what a network sees: box_nms, and what detectors of one step do behind their last layer.
#include <algorithm>

#include <fmt/format.h>

#include "import/mxnet/attributes.h"
#include "import/mxnet/box_suppression.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

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

constexpr char kDetectedBoxes[] = R"(operator graft::DetectedBoxes {
  "the likeliest class of each anchor, its probability and the box that moves make of it, without background"
  attribute threshold: real
  attribute clip: integer
  attribute x: real
  attribute y: real
  attribute width: real
  attribute height: real
  input anchors: f32[1, n, 4]
  input scores: f32[b, c, n]
  input moves: f32[b, 4 * n]
  output rows: f32[b, n, 6]
  reduce best over [i < b, t < n] fold max [k < c - 1] { lift scores[i, k + 1, t] }
  reduce which over [i < b, t < n] fold min [k < c - 1] { lift select(scores[i, k + 1, t] == best[i, t], k, c) }
  compute seen over [i < b, t < n] { value and(best[i, t] > -1:f32, not(best[i, t] < threshold)) }
  compute corner over [i < b, t < n, e < 4] {
    let axis = mod(e, 2)
    let side = anchors[0, t, 2 + axis] - anchors[0, t, axis]
    let anchor = (anchors[0, t, axis] + anchors[0, t, 2 + axis]) / 2
    let move = moves[i, 4 * t + axis]
    let growth = moves[i, 4 * t + 2 + axis]
    let middle = select(axis == 0, move * x, move * y) * side + anchor
    let half = exp(select(axis == 0, growth * width, growth * height)) * side / 2
    let edge = select(e < 2, middle - half, middle + half)
    value select(clip == 1, max(0:f32, min(1:f32, edge)), edge)
  }
  reduce number over [i < b] fold add [t < n] { lift select(seen[i, t], 1:i64, 0:i64) }
  sort first, from over [i < b] along [t < n] keep [n] descending { key select(seen[i, t], n - t, -1 - t) }
  compute rows over [i < b, q < n, j < 6] {
    let t = from[i, q]
    let row = select(j == 0, cast<f32>(which[i, t]), select(j == 1, best[i, t], corner[i, t, max(j - 2, 0)]))
    value select(q < number[i], row, -1:f32)
  }
})";

/// MXNet marks what it leaves out by the class -1; what is beyond the best so many stands as before they were ordered.
constexpr char kMarkedBoxes[] = R"(operator graft::MarkedBoxes {
  "rows in order, of the class -1 where they are not kept; behind them those that were not ordered"
  input rows: f32[b, n, w]
  input ordered: f32[b, m, w]
  input counts: bool[b, m]
  input keep: bool[b, m]
  output y: f32[b, n, w]
  compute y over [i < b, q < n, j < w] {
    let p = min(q, m - 1)
    let inside = and(q < m, counts[i, p])
    let kept = and(inside, keep[i, p])
    value select(and(j == 0, not(kept)), -1:f32, select(inside, ordered[i, p, j], rows[i, q, j]))
  }
})";

int64_t is_center(const Conversion& c, std::string_view name) {
  const std::string form = word(c, name);
  if (form != "corner" && form != "center") c.refuse(fmt::format("boxes as '{}'", form));
  return form == "center" ? 1 : 0;
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
  const Rows ordered = ordered_boxes(c, whole, {.score = score,
                                                .most = most > 0 ? most : *count,
                                                .threshold = real(c, "valid_thresh"),
                                                .id = std::max<int64_t>(id, -1),
                                                .background = real(c, "background_id")});
  const ValueId keep = free_boxes(c, ordered, {.coordinates = coordinates,
                                               .overlap = real(c, "overlap_thresh"),
                                               .id = flag(c, "force_suppress") ? -1 : std::max<int64_t>(id, -1),
                                               .center = in == 1});
  const int64_t form = in == out ? 0 : out == 1 ? 1 : 2;
  const ValueId packed = c.add("PackedBoxes", {whole, ordered.rows, keep},
                               defined(kPackedBoxes, {{"coordinates", coordinates}, {"form", form}}), "graft");
  c.give(rank == 3 ? packed : c.add("Reshape", {packed, c.add("Shape", {data})}));
}

/// Boxes of the classes that a network finds at anchors.
void detect_boxes(Conversion& c) {
  const ValueId scores = c.tensor("cls_prob"), moves = c.tensor("loc_pred"), anchors = c.tensor("anchor");
  for (const ValueId each : {scores, moves, anchors}) {
    if (c.type_of(each) != DType::kFloat32) c.refuse("boxes that are not of float32");
  }
  if (c.rank_of(scores) != 3 || c.rank_of(moves) != 2 || c.rank_of(anchors) != 3) c.refuse("inputs of other axes");
  const auto count = c.size_of(anchors, 1).as_constant();
  const std::vector<double> variances = reals(c, "variances");
  if (!count) c.refuse("a number of boxes that is known only while running");
  if (variances.size() != 4) c.refuse("variances of another number than 4");
  const ValueId rows = c.add("DetectedBoxes", {anchors, scores, moves},
                             defined(kDetectedBoxes, {{"threshold", real(c, "threshold")},
                                                      {"clip", int64_t{flag(c, "clip")}},
                                                      {"x", variances[0]},
                                                      {"y", variances[1]},
                                                      {"width", variances[2]},
                                                      {"height", variances[3]}}), "graft");
  const double overlap = real(c, "nms_threshold");
  if (overlap <= 0 || overlap > 1) return c.give(rows);
  const int64_t most = integer(c, "nms_topk");
  const Rows ordered = ordered_boxes(c, rows, {.score = 1, .most = most > 0 ? most : *count, .threshold = -1, .id = 0});
  const ValueId keep = free_boxes(c, ordered, {.coordinates = 2,
                                               .overlap = overlap,
                                               .reached = true,
                                               .id = flag(c, "force_suppress") ? -1 : 0,
                                               .turned = true});
  c.give(c.add("MarkedBoxes", {rows, ordered.rows, ordered.counts, keep}, defined(kMarkedBoxes, {}), "graft"));
}

}  // namespace

std::vector<Row> detection_rows() {
  return {
      {"_contrib_box_nms _contrib_box_non_maximum_suppression",
       "data, overlap_thresh=0.5, valid_thresh=0, topk=-1, coord_start=2, score_index=1, id_index=-1, "
       "background_id=-1, force_suppress=False, in_format=corner, out_format=corner", box_nms},
      {"_contrib_MultiBoxDetection _npx_multibox_detection",  // MXNet reads no background_id
       "cls_prob, loc_pred, anchor, clip=True, threshold=0.01, background_id=0, nms_threshold=0.5, "
       "force_suppress=False, variances=(0.1, 0.1, 0.2, 0.2), nms_topk=-1", detect_boxes},
  };
}

}  // namespace graft::mxnet
