// SPDX-License-Identifier: Apache-2.0
// NonMaxSuppression -> Loop: a round takes the next 64 boxes of each row (a class of an image, from the best box on)
// and keeps those that neither a kept box of earlier rounds nor a better one of the 64 covers. Boxes are looked at in
// the order of the sequential algorithm, of which only the bits of one round are left; a row ends with its limit.
#include <map>
#include <string_view>

#include "graph/custom_operator.h"
#include "graph/insert_graph.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

constexpr std::string_view kScoredBoxes = R"(operator graft::ScoredBoxes {
  "boxes that score above a threshold, row by row (a class of an image) from the best on, as corners"
  attribute center: integer
  attribute all: integer
  input boxes: f32[b, n, 4]
  input scores: f32[b, c, n]
  input threshold: f32[1]
  output row: i64[m]
  output place: i64[m]
  output corners: f32[m, 4]
  compact rows, places, found count [m] over [i < b, j < c, k < n] {
    condition or(all == 1, scores[i, j, k] > threshold[0])
    values i * c + j, k, scores[i, j, k]
  }
  sort best, by_score over [] along [t < m] keep [m] descending { key found[t] }
  sort row, by_row over [] along [t < m] keep [m] { key rows[by_score[t]] }
  compute place over [t < m] { value places[by_score[by_row[t]]] }
  compute corners over [t < m, e < 4] {
    let near = boxes[floor_div(row[t], c), place[t], mod(e, 2)]
    let far = boxes[floor_div(row[t], c), place[t], mod(e, 2) + 2]
    let middle = boxes[floor_div(row[t], c), place[t], 1 - mod(e, 2)]
    let half = boxes[floor_div(row[t], c), place[t], 3 - mod(e, 2)] / 2
    let centred = select(e < 2, middle - half, middle + half)
    value select(center == 1, centred, select(e < 2, min(near, far), max(near, far)))
  }
})";

constexpr std::string_view kRows = R"(operator graft::Rows {
  "which rows have boxes, and where each one begins and ends"
  input row: i64[m]
  output first: i64[g]
  output begin: i64[g]
  output end: i64[g]
  compact begin, first count [g] over [t < m] {
    condition or(t == 0, row[t] != row[max(t - 1, 0)])
    values t, row[t]
  }
  compute end over [h < g] { value select(h + 1 < g, begin[min(h + 1, g - 1)], m) }
})";

constexpr std::string_view kKeptBoxes = R"(operator graft::KeptBoxes {
  "which of the next 64 boxes of each row no better one covers, and how many the row has kept then"
  input round: i64[]
  input corners: f32[m, 4]
  input begin: i64[g]
  input end: i64[g]
  input top: f32[g, p]
  input left: f32[g, p]
  input bottom: f32[g, p]
  input right: f32[g, p]
  input counts: i64[g]
  input limit: i64[1]
  input overlap: f32[1]
  output keep: bool[g, 64]
  output kept_top: f32[g, 64]
  output kept_left: f32[g, 64]
  output kept_bottom: f32[g, 64]
  output kept_right: f32[g, 64]
  output new_counts: i64[g]
  output more: bool[]
  compute next over [e < 4, h < g, q < 64] {
    let at = begin[h] + 64 * round[] + q
    value select(at < end[h], corners[at, e], 0:f32)
  }
  reduce covered over [h < g, q < 64] fold or [k < p] {
    let w = min(next[3, h, q], right[h, k]) - max(next[1, h, q], left[h, k])
    let s = min(next[2, h, q], bottom[h, k]) - max(next[0, h, q], top[h, k])
    let i = max(w, 0:f32) * max(s, 0:f32)
    let a = (next[2, h, q] - next[0, h, q]) * (next[3, h, q] - next[1, h, q])
    let b = (bottom[h, k] - top[h, k]) * (right[h, k] - left[h, k])
    lift i / (a + b - i) > overlap[0]
  }
  reduce better over [h < g, q < 64] fold or [k < 64] {
    let w = min(next[3, h, q], next[3, h, k]) - max(next[1, h, q], next[1, h, k])
    let s = min(next[2, h, q], next[2, h, k]) - max(next[0, h, q], next[0, h, k])
    let i = max(w, 0:f32) * max(s, 0:f32)
    let a = (next[2, h, q] - next[0, h, q]) * (next[3, h, q] - next[1, h, q])
    let b = (next[2, h, k] - next[0, h, k]) * (next[3, h, k] - next[1, h, k])
    lift select(and(k < q, i / (a + b - i) > overlap[0]), shl(1:i64, k), 0:i64)
  }
  scan keep, amount over [h < g] along [q < 64] {
    state bits: i64, n: i64
    let free = and(begin[h] + 64 * round[] + q < end[h], not(covered[h, q]))
    let take = and(free, and(n < limit[0], and(bits, better[h, q]) == 0))
    initial 0, counts[h]
    step select(take, or(bits, shl(1:i64, q)), bits), n + select(take, 1:i64, 0:i64)
    emit and(bits, shl(1:i64, q)) != 0, n
  }
  compute kept_top over [h < g, q < 64] { value select(keep[h, q], next[0, h, q], 0:f32) }
  compute kept_left over [h < g, q < 64] { value select(keep[h, q], next[1, h, q], 0:f32) }
  compute kept_bottom over [h < g, q < 64] { value select(keep[h, q], next[2, h, q], 0:f32) }
  compute kept_right over [h < g, q < 64] { value select(keep[h, q], next[3, h, q], 0:f32) }
  compute new_counts over [h < g] { value amount[h, 63] }
  reduce more over [] fold or [h < g] { lift and(begin[h] + 64 * round[] + 64 < end[h], amount[h, 63] < limit[0]) }
})";

constexpr std::string_view kSelectedBoxes = R"(operator graft::SelectedBoxes {
  "kept boxes as image, class and place"
  input keep: bool[g, p]
  input first: i64[g]
  input begin: i64[g]
  input place: i64[m]
  input scores: f32[b, c, n]
  output selected: i64[k, 3]
  compact rows, places count [k] over [h < g, q < p] {
    condition keep[h, q]
    values first[h], place[begin[h] + q]
  }
  compute selected over [t < k, j < 3] {
    value select(j == 0, floor_div(rows[t], c), select(j == 1, mod(rows[t], c), places[t]))
  }
})";

/// Kept boxes go from round to round as corners, of which those that are not kept have no area and cover nothing.
constexpr std::string_view kComposition = R"(graph "NonMaxSuppression" {
  opset "" 28
  input %boxes: f32[b, n, 4]
  input %scores: f32[b, c, n]
  input %limit: i64[]
  input %overlap: f32[]
  input %threshold: f32[]
  constant %none: i64[1] = {0}
  constant %one: i64[1] = {1}
  constant %zero: i64[] = {0}
  constant %no: bool[] = {0}
  constant %nowhere: f32[] = {0}
  %limit_1: i64[1] = Reshape "limit" (%limit, %one)
  %overlap_1: f32[1] = Reshape "overlap" (%overlap, %one)
  %threshold_1: f32[1] = Reshape "threshold" (%threshold, %one)
  %row: ?, %place: ?, %corners: ? = graft::ScoredBoxes "scored" (%boxes, %scores, %threshold_1)
  %first: ?, %begin: ?, %end: ? = graft::Rows "rows" (%row)
  %rows: ? = Shape "row_count" (%first)
  %table: ? = Concat "table" (%rows, %none) {axis = 0}
  %keep: ? = Expand "nothing_kept" (%no, %table)
  %empty: ? = Expand "no_corners" (%nowhere, %table)
  %counts: ? = Expand "counts" (%zero, %rows)
  %found: ? = Size "found" (%row)
  %any: ? = Greater "any" (%found, %zero)
  %kept: ?, _, _, _, _, _ = Loop "rounds" (_, %any, %keep, %empty, %empty, %empty, %empty, %counts,
      %corners, %begin, %end, %limit_1, %overlap_1) {body = graph "round" {
    input %round: i64[]
    input %condition: bool[]
    input %keep: bool[g, p]
    input %top: f32[g, p]
    input %left: f32[g, p]
    input %bottom: f32[g, p]
    input %right: f32[g, p]
    input %counts: i64[g]
    input %corners: f32[m, 4]
    input %begin: i64[g]
    input %end: i64[g]
    input %limit: i64[1]
    input %overlap: f32[1]
    %new_keep: ?, %new_top: ?, %new_left: ?, %new_bottom: ?, %new_right: ?, %new_counts: ?,
      %more: ? = graft::KeptBoxes "kept" (%round, %corners, %begin, %end, %top, %left, %bottom, %right, %counts,
      %limit, %overlap)
    %all_keep: ? = Concat "keep" (%keep, %new_keep) {axis = 1}
    %all_top: ? = Concat "top" (%top, %new_top) {axis = 1}
    %all_left: ? = Concat "left" (%left, %new_left) {axis = 1}
    %all_bottom: ? = Concat "bottom" (%bottom, %new_bottom) {axis = 1}
    %all_right: ? = Concat "right" (%right, %new_right) {axis = 1}
    output %more
    output %all_keep
    output %all_top
    output %all_left
    output %all_bottom
    output %all_right
    output %new_counts
  }, captures = [5]}
  %selected: ? = graft::SelectedBoxes "selected" (%kept, %first, %begin, %place, %scores)
  output %selected
}
)";

const std::map<std::string_view, std::string_view> kDefinitions = {{"ScoredBoxes", kScoredBoxes},
                                                                   {"Rows", kRows},
                                                                   {"KeptBoxes", kKeptBoxes},
                                                                   {"SelectedBoxes", kSelectedBoxes}};

bool compose(Graph& graph, int index) {
  const Node node = graph.nodes[static_cast<size_t>(index)];
  if (!is_op(node, {"NonMaxSuppression"}) || input_count(node) < 2 || node.outputs.size() != 1) return false;
  Graph body = parse_graph(kComposition);
  carry_definitions(body, kDefinitions);
  const bool all = input(node, 4) == kNoValue;
  for (Node& part : body.nodes) {
    if (part.op != "ScoredBoxes") continue;
    part.attributes["all"] = int64_t{all};
    part.attributes["center"] = integer(node, "center_point_box", 0);
  }
  std::vector<ValueId> arguments = {node.inputs[0], node.inputs[1]};
  for (size_t k = 2; k < 5; ++k) {  // what is left out is 0: no boxes, and any overlap is one too many
    const DType type = k == 2 ? DType::kInt64 : DType::kFloat32;
    const ValueId given = input(node, k);
    const TensorData zero = TensorData::zeros(type, {});
    arguments.push_back(given == kNoValue ? graph.add_constant(node.name + "/zero", zero) : given);
  }
  const std::vector<ValueId> copies = insert_graph(graph, body, arguments, node.name);
  replace_node(graph, index, "Identity", {copies[static_cast<size_t>(body.outputs[0])]});
  return true;
}

bool compose_all(Graph& graph) {
  bool changed = false;
  const int count = static_cast<int>(graph.nodes.size());
  for (int i = 0; i < count; ++i) changed |= compose(graph, i);
  if (changed) graph.sort_nodes();
  return changed;
}

}  // namespace

bool lower_non_max_suppression(Graph& graph, const PassContext&) { return rewrite_with_bodies(graph, compose_all); }

}  // namespace graft::passes
