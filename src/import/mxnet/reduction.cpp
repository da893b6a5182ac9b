// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

/// The axes named, or with `exclude` the others; all where none is named.
std::vector<int64_t> axes_of(Conversion& c, int rank, bool exclude) {
  std::vector<int64_t> named = integers(c, "axis");
  for (int64_t& axis : named) axis = c.axis(axis, rank);
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const bool is_named = std::find(named.begin(), named.end(), axis) != named.end();
    if (named.empty() || is_named != exclude) axes.push_back(axis);
  }
  return axes;
}

/// A result without axes has one of size 1 in MXNet.
ValueId at_least_one_axis(Conversion& c, ValueId value) {
  return c.rank_of(value) == 0 ? c.add("Reshape", {value, c.integers_constant({1})}) : value;
}

void reduce_to(Conversion& c, std::string_view op, bool exclude) {
  const ValueId data = c.tensor("data");
  const std::vector<int64_t> axes = axes_of(c, c.rank_of(data), exclude);
  if (axes.empty()) return c.give(data);
  if (!is_float(c.type_of(data)) && op != "ReduceMax" && op != "ReduceMin") c.refuse("an operand of integers");
  const ValueId made = c.add(op, {data, c.integers_constant(axes)}, {{"keepdims", int64_t{flag(c, "keepdims")}}});
  c.give(at_least_one_axis(c, made));
}

std::function<void(Conversion&)> reduction(std::string_view op) {
  return [op](Conversion& c) { reduce_to(c, op, flag(c, "exclude")); };
}

void norm(Conversion& c) {
  const int64_t order = integer(c, "ord");
  if (given(c, "out_dtype")) c.refuse("a type of its own for the result");
  if (order != 1 && order != 2) c.refuse("an order other than 1 and 2");
  reduce_to(c, order == 1 ? "ReduceL1" : "ReduceL2", false);
}

/// Indices are floats in MXNet.
std::function<void(Conversion&)> index_of(std::string_view op) {
  return [op](Conversion& c) {
    const ValueId data = c.tensor("data");
    if (!given(c, "axis")) c.refuse("an index into all elements");
    const int64_t axis = c.axis(integer(c, "axis"), c.rank_of(data));
    const ValueId index = c.add(op, {data}, {{"axis", axis}, {"keepdims", int64_t{flag(c, "keepdims")}}});
    c.give(at_least_one_axis(c, c.cast(index, DType::kFloat32)));
  };
}

}  // namespace

std::vector<Row> reduction_rows() {
  const std::string_view arguments = "data, axis=None, keepdims=False, exclude=False";
  return {
      {"mean", arguments, reduction("ReduceMean")},
      {"sum sum_axis", arguments, reduction("ReduceSum")},
      {"max max_axis", arguments, reduction("ReduceMax")},
      {"min min_axis", arguments, reduction("ReduceMin")},
      {"prod", arguments, reduction("ReduceProd")},
      {"norm", "data, ord=2, axis=None, out_dtype=None, keepdims=False", norm},
      {"argmax", "data, axis=None, keepdims=False", index_of("ArgMax")},
      {"argmin", "data, axis=None, keepdims=False", index_of("ArgMin")},
  };
}

}  // namespace graft::mxnet
