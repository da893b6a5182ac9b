// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Conversion;

/// The axes of an operand that is one number or a list of them.
std::vector<int64_t> axes_of(Conversion& c, std::string_view name, int rank) {
  std::vector<int64_t> axes = c.integers(name);
  for (int64_t& axis : axes) axis = c.axis(axis, rank);
  return axes;
}

/// Over the axes that are named; over none where none is.
std::function<void(Conversion&)> reduce(std::string_view op) {
  return [op](Conversion& c) {
    const ValueId input = c.tensor("input");
    const std::vector<int64_t> axes = axes_of(c, "reduction_indices", c.rank_of(input));
    if (axes.empty()) return c.give(input);
    if (op == "ReduceMean" && !is_float(c.type_of(input))) c.refuse("the mean of integers");
    c.give(c.add(op, {input, c.integers_constant(axes)}, {{"keepdims", int64_t{c.flag("keep_dims")}}}));
  };
}

/// All and Any: of zeros and ones the smallest and the largest.
std::function<void(Conversion&)> reduce_flags(std::string_view op) {
  return [op](Conversion& c) {
    const ValueId input = c.tensor("input");
    const std::vector<int64_t> axes = axes_of(c, "reduction_indices", c.rank_of(input));
    if (axes.empty()) return c.give(input);
    const ValueId made = c.add(op, {c.cast(input, DType::kUint8), c.integers_constant(axes)},
                               {{"keepdims", int64_t{c.flag("keep_dims")}}});
    c.give(c.cast(made, DType::kBool));
  };
}

std::function<void(Conversion&)> position(std::string_view op) {
  return [op](Conversion& c) {
    const ValueId input = c.tensor("input");
    const int64_t axis = c.axis(c.integer("dimension"), c.rank_of(input));
    const DType type = c.has("output_type") ? c.type("output_type") : DType::kInt64;
    c.give(c.cast(c.add(op, {input}, {{"axis", axis}, {"keepdims", int64_t{0}}}), type));
  };
}

void running_sum(Conversion& c) {
  const ValueId x = c.tensor("x");
  const ValueId axis = c.constant(
      TensorData::from_values<int64_t>(DType::kInt64, {}, {c.axis(c.integer("axis"), c.rank_of(x))}));
  c.give(c.add("CumSum", {x, axis},
               {{"exclusive", int64_t{c.flag("exclusive")}}, {"reverse", int64_t{c.flag("reverse")}}}));
}

void top_k(Conversion& c) {
  const ValueId input = c.tensor("input"), k = c.cast(c.tensor("k"), DType::kInt64);
  const ValueId wanted = c.add("Reshape", {k, c.integers_constant({1})});
  const auto made = c.add_several("TopK", {input, wanted}, {{"axis", int64_t{-1}}}, 2);
  c.give({made[0], c.cast(made[1], c.has("index_type") ? c.type("index_type") : DType::kInt32)});
}

}  // namespace

std::vector<frontend::Row> reduction_rows() {
  return {
      {"Sum(T input, Tidx reduction_indices, *, keep_dims=False)", reduce("ReduceSum")},
      {"Mean(T input, Tidx reduction_indices, *, keep_dims=False)", reduce("ReduceMean")},
      {"Max(T input, Tidx reduction_indices, *, keep_dims=False)", reduce("ReduceMax")},
      {"Min(T input, Tidx reduction_indices, *, keep_dims=False)", reduce("ReduceMin")},
      {"Prod(T input, Tidx reduction_indices, *, keep_dims=False)", reduce("ReduceProd")},
      {"All(bool input, Tidx reduction_indices, *, keep_dims=False)", reduce_flags("ReduceMin")},
      {"Any(bool input, Tidx reduction_indices, *, keep_dims=False)", reduce_flags("ReduceMax")},
      {"ArgMax(T input, Tidx dimension, *, output_type=None)", position("ArgMax")},
      {"ArgMin(T input, Tidx dimension, *, output_type=None)", position("ArgMin")},
      {"Cumsum(T x, Tidx:0 axis, *, exclusive=False, reverse=False)", running_sum},
      {"TopKV2(T input, Tk k, *, sorted=True, index_type=None)", top_k},
  };
}

}  // namespace graft::tensorflow
