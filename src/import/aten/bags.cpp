// SPDX-License-Identifier: Apache-2.0
// Rows of a table summed up by bags: EmbeddingBag.
#include <algorithm>
#include <limits>
#include <optional>

#include "import/aten/axes.h"
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;

enum class Mode { kSum, kMean, kMax };

/// What both ways of adding up need.
struct Bags {
  ValueId weight = kNoValue, indices = kNoValue, offsets = kNoValue;
  ValueId weights_of_samples = kNoValue;  ///< or none
  std::optional<int64_t> padding;         ///< an index that counts nothing
  Mode mode = Mode::kSum;
  bool last_is_end = false;               ///< the last offset is where the last bag ends
  DType sum_type = DType::kFloat32;
};

/// The constant that a value is, if it is one number.
std::optional<int64_t> number_of(Conversion& c, ValueId value) {
  const TensorData known = c.given(value).constant;
  if (!known || known.element_count() != 1) return std::nullopt;
  return known.read_integer(0);
}

/// The step of an arithmetic series from zero, or nothing.
std::optional<int64_t> step_of(Conversion& c, ValueId series) {
  if (const TensorData known = c.given(series).constant; known && known.element_count() > 1) {
    const int64_t step = known.read_integer(1);
    for (int64_t i = 0; i < known.element_count(); ++i) {
      if (known.read_integer(i) != c.product(i, step)) return std::nullopt;
    }
    return step;
  }
  for (const Node& node : c.graph().nodes) {
    if (node.op != "Range" || node.outputs[0] != series) continue;
    return number_of(c, node.inputs[0]) == 0 ? number_of(c, node.inputs[2]) : std::nullopt;
  }
  return std::nullopt;
}

/// How many indices each bag has, where it is the same number: of a batch of rows, as modules are called mostly.
std::optional<int64_t> common_length(Conversion& c, const Bags& bags) {
  if (bags.last_is_end) return std::nullopt;
  const auto step = step_of(c, bags.offsets);
  if (!step || *step < 1) return std::nullopt;
  const bool all = c.size_of(bags.indices, 0) == c.size_of(bags.offsets, 0) * Size(*step);
  return all ? step : std::nullopt;
}

/// Elements and whether they count, both with a last axis; `counts` is kNoValue where all do.
struct Elements {
  ValueId rows = kNoValue, counts = kNoValue;
};

Elements elements_of(Conversion& c, const Bags& bags, ValueId indices, ValueId weights_of_samples) {
  Elements made{.rows = c.cast(c.add("Gather", {bags.weight, indices}, {{"axis", int64_t{0}}}), bags.sum_type)};
  const ValueId last = c.integers_constant({-1});
  if (weights_of_samples != kNoValue) {
    const ValueId by = c.add("Unsqueeze", {c.cast(weights_of_samples, bags.sum_type), last});
    made.rows = c.add("Mul", {made.rows, by});
  }
  if (!bags.padding) return made;
  const ValueId padding = c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {*bags.padding}));
  made.counts = c.add("Unsqueeze", {c.add("Not", {c.add("Equal", {indices, padding})}), last});
  const double nothing = bags.mode == Mode::kMax ? -std::numeric_limits<double>::infinity() : 0;
  made.rows = c.add("Where", {made.counts, made.rows, c.real_constant(nothing, bags.sum_type)});
  return made;
}

/// From what was reduced and how many elements it had.
ValueId finished(Conversion& c, const Bags& bags, ValueId reduced, ValueId count) {
  const ValueId zero = c.real_constant(0, bags.sum_type), one = c.real_constant(1, bags.sum_type);
  if (bags.mode == Mode::kMean) reduced = c.add("Div", {reduced, c.add("Max", {count, one})});
  if (bags.mode == Mode::kMax) reduced = c.add("Where", {c.add("Greater", {count, zero}), reduced, zero});
  return c.cast(reduced, c.type_of(bags.weight));
}

/// Bags of one length: an axis that is reduced.
ValueId of_rows(Conversion& c, const Bags& bags, int64_t length) {
  const ValueId shape = c.integers_constant({-1, length}), axis = c.integers_constant({1});
  const auto in_rows = [&](ValueId x) { return x == kNoValue ? x : c.add("Reshape", {x, shape}); };
  const Elements all = elements_of(c, bags, in_rows(bags.indices), in_rows(bags.weights_of_samples));
  const auto over = [&](std::string_view op, ValueId x) { return c.add(op, {x, axis}, {{"keepdims", int64_t{0}}}); };
  const ValueId reduced = over(bags.mode == Mode::kMax ? "ReduceMax" : "ReduceSum", all.rows);
  const ValueId count = all.counts == kNoValue ? c.real_constant(static_cast<double>(length), bags.sum_type)
                                               : over("ReduceSum", c.cast(all.counts, bags.sum_type));
  return finished(c, bags, reduced, count);
}

/// Bags of any length: each row goes to its bag, which counts how many offsets do not lie behind it.
ValueId of_lists(Conversion& c, const Bags& bags) {
  const ValueId zero = c.real_constant(0, DType::kInt64), one = c.integers_constant({1});
  const ValueId last = c.integers_constant({-1});
  const ValueId length = c.add("Shape", {bags.indices}), all = c.add("Shape", {bags.offsets});
  const ValueId none = c.add("Expand", {zero, c.add("Add", {length, one})});
  const ValueId begun = c.add("ScatterElements", {none, bags.offsets, c.add("Expand", {one, all})},
                              {{"axis", int64_t{0}}, {"reduction", std::string("add")}});
  const ValueId within = c.add("Slice", {begun, c.integers_constant({0}), length, c.integers_constant({0})});
  const ValueId bag = c.add("Sub", {c.add("CumSum", {within, zero}), one});
  const ValueId place = c.add("Unsqueeze", {bag, last});
  const Elements each = elements_of(c, bags, bags.indices, bags.weights_of_samples);
  const auto gathered = [&](ValueId rows, ValueId width, double from, const std::string& reduction) {
    const ValueId empty = c.add("Expand", {c.real_constant(from, bags.sum_type), joined(c, {all, width})});
    return c.add("ScatterND", {empty, place, rows}, {{"reduction", reduction}});
  };
  const bool max = bags.mode == Mode::kMax;
  ValueId reduced = gathered(each.rows, sizes(c, bags.weight, 1),
                             max ? -std::numeric_limits<double>::infinity() : 0, max ? "max" : "add");
  ValueId count = kNoValue;
  if (bags.mode != Mode::kSum) {
    const ValueId ones = each.counts == kNoValue
                             ? c.add("Expand", {c.real_constant(1, bags.sum_type), joined(c, {length, one})})
                             : c.cast(each.counts, bags.sum_type);
    count = gathered(ones, one, 0, "add");
  }
  if (bags.last_is_end) {  // what lies behind it, is in no bag
    reduced = sliced(c, reduced, 0, 0, -1);
    if (count != kNoValue) count = sliced(c, count, 0, 0, -1);
  }
  return finished(c, bags, reduced, count);
}

/// `negative_counts`: of padding_idx from the end; else it names none.
void embedding_bag(Conversion& c, bool padded, bool negative_counts) {
  const int64_t mode = c.integer("mode");
  if (mode < 0 || mode > 2) c.refuse("a mode that there is none of");
  Bags bags{.weight = c.tensor("weight"), .indices = indices(c, "indices"), .offsets = indices(c, "offsets"),
            .weights_of_samples = c.tensor("per_sample_weights"), .padding = {}, .mode = static_cast<Mode>(mode),
            .last_is_end = c.flag("include_last_offset"), .sum_type = compute_type(c.type_of(c.tensor("weight")))};
  if (c.rank_of(bags.weight) != 2 || c.rank_of(bags.indices) != 1 || c.rank_of(bags.offsets) != 1) {
    c.refuse("a table, indices or offsets of another number of axes");
  }
  if (!is_float(c.type_of(bags.weight))) c.refuse("a table of integers");
  if (bags.weights_of_samples != kNoValue && bags.mode != Mode::kSum) c.refuse("weights of samples without a sum");
  if (padded && c.has("padding_idx")) {
    const int64_t given = c.integer("padding_idx");
    const auto rows = c.size_of(bags.weight, 0).as_constant();
    if (given >= 0) bags.padding = given;
    if (given < 0 && negative_counts) {
      if (!rows) c.refuse("a padding_idx from the end of a table whose size is known only while running");
      bags.padding = c.sum(given, *rows);
    }
  }
  const auto length = common_length(c, bags);
  c.give(length ? of_rows(c, bags, *length) : of_lists(c, bags));
}

}  // namespace

std::vector<Row> bag_rows() {
  const std::string results = " -> (Tensor, Tensor, Tensor, Tensor)";
  return {
      {"aten::_embedding_bag _embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, "
       "bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, "
       "bool include_last_offset=False, int padding_idx=-1)" + results,
       [](Conversion& c) { embedding_bag(c, true, false); }},
      {"aten::embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
       "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False)" + results,
       [](Conversion& c) { embedding_bag(c, false, false); }},
      {"aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, "
       "int mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx)" + results,
       [](Conversion& c) { embedding_bag(c, true, true); }},
  };
}

}  // namespace graft::aten
