// SPDX-License-Identifier: Apache-2.0
// Proposal and MultiProposal: regions in which a network sees something, as detectors of two steps look into.
#include <cmath>

#include "import/mxnet/attributes.h"
#include "import/mxnet/box_suppression.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

/// Corners are the first and the last pixel of a box.
constexpr char kProposedBoxes[] = R"(operator graft::ProposedBoxes {
  "anchors at each place as a network moves them, inside of the image, and how sure it is; -1 of small ones"
  attribute stride: integer
  attribute least: real
  attribute corners: integer
  input anchors: f32[a, 4]
  input scores: f32[b, 2 * a, h, w]
  input moves: f32[b, 4 * a, h, w]
  input images: f32[b, 3]
  output rows: f32[b, h * w * a, 5]
  compute corner over [i < b, t < h * w * a, e < 4] {
    let axis = mod(e, 2)
    let k = mod(t, a)
    let x = mod(floor_div(t, a), w)
    let y = floor_div(t, a * w)
    let place = cast<f32>(select(axis == 0, x, y) * stride)
    let near = anchors[k, axis] + place
    let far = anchors[k, 2 + axis] + place
    let side = far - near + 1
    let move = moves[i, 4 * k + axis, y, x]
    let growth = moves[i, 4 * k + 2 + axis, y, x]
    let middle = move * side + (near + (side - 1) / 2)
    let half = (exp(growth) * side - 1) / 2
    let moved = select(e < 2, near + move, far + growth)
    let grown = select(e < 2, middle - half, middle + half)
    value max(min(select(corners == 1, moved, grown), images[i, 1 - axis] - 1), 0:f32)
  }
  compute rows over [i < b, t < h * w * a, j < 5] {
    let k = mod(t, a)
    let x = mod(floor_div(t, a), w)
    let y = floor_div(t, a * w)
    let size = least * images[i, 2]
    let wide = corner[i, t, 2] - corner[i, t, 0] + 1
    let high = corner[i, t, 3] - corner[i, t, 1] + 1
    let small = or(wide < size, high < size)
    let below = cast<f32>(y) >= trunc(images[i, 0] / stride)
    let beyond = or(below, cast<f32>(x) >= trunc(images[i, 1] / stride))
    let more = select(small, select(j < 2, -size / 2, size / 2), 0:f32)
    let score = select(or(small, beyond), -1:f32, scores[i, a + k, y, x])
    value select(j == 4, score, corner[i, t, min(j, 3)] + more)
  }
})";

constexpr char kFirstBoxes[] = R"(operator graft::FirstBoxes {
  "the first rows that are kept, from the beginning again where they are too few, behind the number of the image"
  attribute most: integer
  input rows: f32[b, m, 5]
  input keep: bool[b, m]
  output boxes: f32[b, most, 5]
  output scores: f32[b, most, 1]
  reduce number over [i < b] fold add [q < m] { lift select(keep[i, q], 1:i64, 0:i64) }
  sort first, from over [i < b] along [q < m] keep [m] descending { key select(keep[i, q], m - q, -1 - q) }
  compute boxes over [i < b, q < most, j < 5] {
    let row = from[i, mod(q, max(number[i], 1))]
    value select(j == 0, cast<f32>(i), rows[i, row, max(j - 1, 0)])
  }
  compute scores over [i < b, q < most, j < 1] { value rows[i, from[i, mod(q, max(number[i], 1))], 4] }
})";

/// One box for each ratio and scale, around the middle of a square as large as the stride; sides are whole numbers of
/// pixels before they are scaled.
ValueId anchors_of(Conversion& c, int64_t stride) {
  const std::vector<double> ratios = reals(c, "ratios"), scales = reals(c, "scales");
  const auto count = static_cast<int64_t>(ratios.size() * scales.size());
  if (count == 0) c.refuse("no anchors");
  TensorData made = TensorData::zeros(DType::kFloat32, {count, 4});
  const auto side = static_cast<float>(stride), middle = (side - 1) / 2;
  int64_t next = 0;
  for (const double each : ratios) {
    const auto ratio = static_cast<float>(each);
    const float width = std::floor(std::sqrt(std::floor(side * side / ratio)) + 0.5F);
    for (const double other : scales) {
      const auto scale = static_cast<float>(other);
      const float wide = width * scale, high = std::floor(wide / scale * ratio + 0.5F) * scale;
      for (const float edge : {middle - (wide - 1) / 2, middle - (high - 1) / 2, middle + (wide - 1) / 2,
                               middle + (high - 1) / 2}) {
        made.write_double(next++, edge);
      }
    }
  }
  return c.constant(std::move(made));
}

/// `single`: the operator is for one image, and a run with more is an error.
void propose(Conversion& c, bool single) {
  ValueId scores = c.tensor("cls_prob"), moves = c.tensor("bbox_pred"), images = c.tensor("im_info");
  for (const ValueId each : {scores, moves, images}) {
    if (c.type_of(each) != DType::kFloat32) c.refuse("boxes that are not of float32");
  }
  if (c.rank_of(scores) != 4 || c.rank_of(moves) != 4 || c.rank_of(images) != 2) c.refuse("inputs of other axes");
  const int64_t stride = integer(c, "feature_stride"), most = integer(c, "rpn_post_nms_top_n");
  if (stride < 1 || most < 1) c.refuse("a feature_stride or an rpn_post_nms_top_n below 1");
  const ValueId anchors = anchors_of(c, stride);
  const auto each = c.size_of(anchors, 0).as_constant();
  const auto height = c.size_of(scores, 2).as_constant(), width = c.size_of(scores, 3).as_constant();
  if (!height || !width) c.refuse("a map whose size is known only while running");
  if (single) {
    scores = c.add("Reshape", {scores, c.integers_constant({1, c.product(2, *each), *height, *width})});
    moves = c.add("Reshape", {moves, c.integers_constant({1, c.product(4, *each), *height, *width})});
    images = c.add("Reshape", {images, c.integers_constant({1, 3})});
  }
  const int64_t count = c.product(c.product(*height, *width), *each), first = integer(c, "rpn_pre_nms_top_n");
  const ValueId rows = c.add("ProposedBoxes", {anchors, scores, moves, images},
                             defined(kProposedBoxes, {{"stride", stride},
                                                      {"least", real(c, "rpn_min_size")},
                                                      {"corners", int64_t{flag(c, "iou_loss")}}}), "graft");
  const Rows ordered = ordered_boxes(c, rows, {.score = 4, .most = first > 0 ? first : count});
  const ValueId keep = free_boxes(c, ordered, {.coordinates = 0,
                                               .overlap = real(c, "threshold"),
                                               .turned = true,
                                               .edge = 1});
  const std::vector<ValueId> made =
      c.add_several("FirstBoxes", {ordered.rows, keep}, defined(kFirstBoxes, {{"most", most}}), 2, "graft");
  c.give({c.add("Reshape", {made[0], c.integers_constant({-1, 5})}),
          c.add("Reshape", {made[1], c.integers_constant({-1, 1})})});
}

}  // namespace

std::vector<Row> proposal_rows() {
  constexpr std::string_view kArguments =
      "cls_prob, bbox_pred, im_info, rpn_pre_nms_top_n=6000, rpn_post_nms_top_n=300, threshold=0.7, rpn_min_size=16, "
      "scales=(4, 8, 16, 32), ratios=(0.5, 1, 2), feature_stride=16, output_score=False, iou_loss=False";
  return {{"_contrib_Proposal", kArguments, [](Conversion& c) { propose(c, true); }},
          {"_contrib_MultiProposal", kArguments, [](Conversion& c) { propose(c, false); }}};
}

}  // namespace graft::mxnet
