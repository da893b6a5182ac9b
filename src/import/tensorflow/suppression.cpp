// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression of one set of boxes. Where a box that overlaps goes at once, it is the graph's
// NonMaxSuppression; where its score only sinks, or overlaps are given, a Loop takes the best one in each round.
#include <limits>
#include <string>

#include "graph/symbols.h"
#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Conversion;

constexpr float kNever = -std::numeric_limits<float>::infinity();  // the score of a box that is taken, or gone

/// Rounds until no score is above the threshold: WEIGH gives %next, all scores behind the choice of %best, of %scores.
constexpr std::string_view kRounds = R"(graph "Suppression" {
  opset "" 28
  input %scores: f32[n]
  input %limit: i64[]
  input %threshold: f32[]
  input %strictness: f32[]
  INPUTS
  constant %never: f32[] = {-inf}
  constant %start: i64[] = {0}
  constant %step: i64[] = {1}
  %size: ? = Size "size" (%scores)
  %places: ? = Range "places" (%start, %size, %step)
  constant %one: i64[1] = {1}
  constant %none: f32[1] = {-inf}
  %all: ? = Concat "with_none" (%scores, %none) {axis = 0}
  %highest: ? = ReduceMax "highest" (%all) {keepdims = 0}
  %any: ? = Greater "any" (%highest, %threshold)
  _, %chosen: ?, %chosen_scores: ? = Loop "rounds" (%limit, %any, %scores, %places, %threshold, %strictness, %never,
      GIVEN) {body = graph "round" {
    input %round: i64[]
    input %condition: bool[]
    input %scores: f32[n]
    input %places: i64[n]
    input %threshold: f32[]
    input %strictness: f32[]
    input %never: f32[]
    INPUTS
    %best: ? = ArgMax "best" (%scores) {axis = 0, keepdims = 0}
    %score: ? = Gather "score" (%scores, %best) {axis = 0}
    WEIGH
    %here: ? = Equal "here" (%places, %best)
    %next: ? = Where "next" (%here, %never, %weighed)
    %highest: ? = ReduceMax "highest" (%next) {keepdims = 0}
    %more: ? = Greater "more" (%highest, %threshold)
    output %more
    output %next
    output %best
    output %score
  }, captures = [CAPTURES]}
  output %chosen
  output %chosen_scores
}
)";

/// Overlaps with each box are given: those above the limit are gone.
constexpr std::string_view kByTable = R"(
    constant %column: i64[] = {0}
    %overlap: ? = Gather "overlap" (%table, %best) {axis = 1}
    %gone: ? = Greater "gone" (%overlap, %strictness)
    %weighed: ? = Where "weighed" (%gone, %never, %scores))";

/// A score sinks by exp(strictness * overlap^2), of the corners near and far from the origin.
constexpr std::string_view kByBoxes = R"(
    constant %nothing: f32[] = {0}
    constant %sides: i64[1] = {1}
    %best_near: ? = Gather "best_near" (%near, %best) {axis = 0}
    %best_far: ? = Gather "best_far" (%far, %best) {axis = 0}
    %begin: ? = Max "begin" (%near, %best_near)
    %end: ? = Min "end" (%far, %best_far)
    %extent: ? = Sub "extent" (%end, %begin)
    %clipped: ? = Max "clipped" (%extent, %nothing)
    %common: ? = ReduceProd "common" (%clipped, %sides) {keepdims = 0}
    %best_area: ? = Gather "best_area" (%area, %best) {axis = 0}
    %both: ? = Add "both" (%area, %best_area)
    %joined: ? = Sub "joined" (%both, %common)
    %share: ? = Div "share" (%common, %joined)
    %meets: ? = Greater "meets" (%common, %nothing)
    %overlap: ? = Where "overlap" (%meets, %share, %nothing)
    %squared: ? = Mul "squared" (%overlap, %overlap)
    %power: ? = Mul "power" (%squared, %strictness)
    %weight: ? = Exp "weight" (%power)
    %sunk: ? = Mul "sunk" (%scores, %weight)
    %alive: ? = Greater "alive" (%scores, %never)
    %weighed: ? = Where "weighed" (%alive, %sunk, %never))";

std::string replaced(std::string text, std::string_view word, std::string_view by) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size())) {
    text.replace(at, word.size(), by);
  }
  return text;
}

ValueId scalar(Conversion& c, ValueId value, DType type) {
  return c.add("Reshape", {c.cast(value, type), c.integers_constant({})});
}
ValueId scalar(Conversion& c, std::string_view name, DType type) { return scalar(c, c.tensor(name), type); }
ValueId row(Conversion& c, ValueId value, DType type) {
  return c.add("Reshape", {c.cast(value, type), c.integers_constant({1})});
}

/// Places and scores of what is kept, both by the order of the scores.
struct Kept {
  ValueId places, scores;
};

Kept by_rounds(Conversion& c, std::string_view weigh, std::string_view inputs, std::string_view names, size_t count,
               std::vector<ValueId> given) {
  std::string text = replaced(std::string(kRounds), "WEIGH", weigh);
  text = replaced(replaced(std::move(text), "INPUTS", inputs), "GIVEN", names);
  const Graph rounds = parse_graph(replaced(std::move(text), "CAPTURES", std::to_string(count + 4)));
  const std::vector<ValueId> copies = c.insert(rounds, given);
  return {copies[static_cast<size_t>(rounds.outputs[0])], copies[static_cast<size_t>(rounds.outputs[1])]};
}

/// Of a threshold that a row may lack, so that every score is above it.
ValueId score_threshold(Conversion& c, bool stated) {
  return stated ? c.cast(c.tensor("score_threshold"), DType::kFloat32) : c.real_constant(kNever, DType::kFloat32);
}

Kept at_once(Conversion& c, ValueId boxes, ValueId scores, ValueId overlap, ValueId threshold) {
  const ValueId first = c.integers_constant({0});
  const Size count = Size::symbol(dimension_symbol(c.node().name + "_kept"));
  const ValueId kept = c.add_described(
      "NonMaxSuppression",
      {c.add("Unsqueeze", {boxes, first}), c.add("Unsqueeze", {scores, c.integers_constant({0, 1})}),
       row(c, c.tensor("max_output_size"), DType::kInt64), row(c, overlap, DType::kFloat32),
       row(c, threshold, DType::kFloat32)},
      DType::kInt64, Shape{count, Size(3)});
  const ValueId two = c.constant(TensorData::from_values(DType::kInt64, {}, std::vector<int64_t>{2}));
  const ValueId places = c.add("Gather", {kept, two}, {{"axis", int64_t{1}}});
  return {places, c.add("Gather", {scores, places}, {{"axis", int64_t{0}}})};
}

/// Boxes whose scores sink by how much they overlap better ones.
Kept sinking(Conversion& c, ValueId boxes, ValueId scores, ValueId threshold, double sigma) {
  const auto part = [&](int64_t begin) {
    return c.add("Slice", {boxes, c.integers_constant({begin}), c.integers_constant({begin + 2}),
                           c.integers_constant({1})});
  };
  const ValueId one = part(0), other = part(2), near = c.add("Min", {one, other}), far = c.add("Max", {one, other});
  const ValueId area = c.add("ReduceProd", {c.add("Sub", {far, near}), c.integers_constant({1})},
                             {{"keepdims", int64_t{0}}});
  return by_rounds(c, kByBoxes, "input %near: f32[n, 2]\n  input %far: f32[n, 2]\n  input %area: f32[n]",
                   "%near, %far, %area", 3,
                   {scores, scalar(c, "max_output_size", DType::kInt64), scalar(c, threshold, DType::kFloat32),
                    c.real_constant(-0.5 / sigma, DType::kFloat32), near, far, area});
}

/// As many as `max_output_size`, 0 behind those that are kept.
ValueId padded(Conversion& c, ValueId values) {
  const ValueId size = row(c, c.tensor("max_output_size"), DType::kInt64), first = c.integers_constant({0});
  const ValueId more = c.add("Expand", {c.real_constant(0, c.type_of(values)), size});
  return c.add("Slice", {c.add("Concat", {values, more}, {{"axis", int64_t{0}}}), first, size, first});
}

/// Of version 2 to 5: places, scores from version 5 on, and how many from version 4 on, which may be filled up.
std::function<void(Conversion&)> suppress(int version) {
  return [version](Conversion& c) {
    const DType type = c.type_of(c.tensor("boxes"));
    const ValueId boxes = c.cast(c.tensor("boxes"), DType::kFloat32);
    const ValueId scores = c.cast(c.tensor("scores"), DType::kFloat32);
    const ValueId threshold = score_threshold(c, version > 2);
    ValueId sigma = kNoValue;
    double softness = 0;
    if (version == 5) {
      sigma = c.tensor("soft_nms_sigma");
      const TensorData known = c.given(sigma).constant;
      if (!known) c.refuse("how softly it suppresses is known only while running");
      softness = known.read_double(0);
    }
    Kept kept = softness > 0 ? sinking(c, boxes, scores, threshold, softness)
                             : at_once(c, boxes, scores, c.tensor("iou_threshold"), threshold);
    const ValueId count = c.cast(c.add("Size", {kept.places}), DType::kInt32);
    const bool fills = version > 3 && c.flag("pad_to_max_output_size");
    const auto given = [&](ValueId values, DType wanted) {
      return c.cast(fills ? padded(c, values) : values, wanted);
    };
    std::vector<ValueId> results = {given(kept.places, DType::kInt32)};
    if (version == 5) results.push_back(given(kept.scores, type));
    if (version > 3) results.push_back(count);
    c.give(std::move(results));
  };
}

void suppress_by_table(Conversion& c) {
  const Kept kept = by_rounds(c, kByTable, "input %table: f32[n, n]", "%table", 1,
                              {c.tensor("scores"), scalar(c, "max_output_size", DType::kInt64),
                               scalar(c, "score_threshold", DType::kFloat32),
                               scalar(c, "overlap_threshold", DType::kFloat32), c.tensor("overlaps")});
  c.give(c.cast(kept.places, DType::kInt32));
}

}  // namespace

std::vector<frontend::Row> suppression_rows() {
  return {
      {"NonMaxSuppressionV2(T:2 boxes, T:1 scores, int32:0 max_output_size, T_threshold:0 iou_threshold)", suppress(2)},
      {"NonMaxSuppressionV3(T:2 boxes, T:1 scores, int32:0 max_output_size, T_threshold:0 iou_threshold, "
       "T_threshold:0 score_threshold)", suppress(3)},
      {"NonMaxSuppressionV4(T:2 boxes, T:1 scores, int32:0 max_output_size, T_threshold:0 iou_threshold, "
       "T_threshold:0 score_threshold, *, pad_to_max_output_size=False)", suppress(4)},
      {"NonMaxSuppressionV5(T:2 boxes, T:1 scores, int32:0 max_output_size, T:0 iou_threshold, T:0 score_threshold, "
       "T:0 soft_nms_sigma, *, pad_to_max_output_size=False)", suppress(5)},
      {"NonMaxSuppressionWithOverlaps(float:2 overlaps, float:1 scores, int32:0 max_output_size, "
       "float:0 overlap_threshold, float:0 score_threshold)", suppress_by_table},
  };
}

}  // namespace graft::tensorflow
