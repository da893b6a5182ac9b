// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "import/mxnet/attributes.h"
#include "import/mxnet/positions.h"
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

void reduce_to(Conversion& c, std::string_view op, bool exclude, ValueId data) {
  const std::vector<int64_t> axes = axes_of(c, c.rank_of(data), exclude);
  if (axes.empty()) return c.give(data);
  if (!is_float(c.type_of(data)) && op != "ReduceMax" && op != "ReduceMin") c.refuse("an operand of integers");
  const ValueId made = c.add(op, {data, c.integers_constant(axes)}, {{"keepdims", int64_t{flag(c, "keepdims")}}});
  c.give(at_least_one_axis(c, made));
}

std::function<void(Conversion&)> reduction(std::string_view op) {
  return [op](Conversion& c) { reduce_to(c, op, flag(c, "exclude"), c.tensor("data")); };
}

void norm(Conversion& c) {
  const int64_t order = integer(c, "ord");
  if (given(c, "out_dtype")) c.refuse("a type of its own for the result");
  if (order != 1 && order != 2) c.refuse("an order other than 1 and 2");
  reduce_to(c, order == 1 ? "ReduceL1" : "ReduceL2", false, c.tensor("data"));
}

/// The sum or product of what is a number.
std::function<void(Conversion&)> of_numbers(std::string_view op, double neutral) {
  return [op, neutral](Conversion& c) {
    const ValueId data = c.tensor("data");
    if (!is_float(c.type_of(data))) c.refuse("an operand of integers");
    const ValueId numbers = c.add("Where", {c.add("IsNaN", {data}), c.real_constant(neutral, c.type_of(data)), data});
    reduce_to(c, op, flag(c, "exclude"), numbers);
  };
}

/// The mean, and the mean of the squared distance from it.
void moments(Conversion& c) {
  const ValueId data = c.tensor("data");
  std::vector<int64_t> axes = integers(c, "axes");
  for (int64_t& axis : axes) axis = c.axis(axis, c.rank_of(data));
  if (axes.empty()) c.refuse("moments of all elements");
  const auto mean = [&](ValueId value, bool keeps) {
    return c.add("ReduceMean", {value, c.integers_constant(axes)}, {{"keepdims", int64_t{keeps}}});
  };
  const ValueId away = c.add("Sub", {data, mean(data, true)});
  const bool keeps = flag(c, "keepdims");
  c.give(std::vector<ValueId>{mean(data, keeps), mean(c.add("Mul", {away, away}), keeps)});
}

/// Of one axis, or of all elements in their order.
void cumulative_sum(Conversion& c) {
  ValueId data = c.tensor("a");
  if (given(c, "dtype")) data = c.cast(data, type(c, "dtype"));
  const int64_t axis = given(c, "axis") ? c.axis(integer(c, "axis"), c.rank_of(data)) : 0;
  if (!given(c, "axis")) data = c.add("Reshape", {data, c.integers_constant({-1})});
  c.give(c.add("CumSum", {data, integer_scalar(c, axis)}));
}

/// Indices are floats in MXNet.
std::function<void(Conversion&)> index_of(std::string_view op) {
  return [op](Conversion& c) {
    ValueId data = c.tensor("data");
    if (!given(c, "axis")) {  // an index into all elements
      const ValueId flat = c.add("Reshape", {data, c.integers_constant({-1})});
      const ValueId index = c.add(op, {flat}, {{"axis", int64_t{0}}, {"keepdims", int64_t{1}}});
      if (flag(c, "keepdims") && c.rank_of(data) != 1) c.refuse("an index into all elements that keeps axes");
      return c.give(c.cast(index, DType::kFloat32));
    }
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
      {"nansum", arguments, of_numbers("ReduceSum", 0)},
      {"nanprod", arguments, of_numbers("ReduceProd", 1)},
      {"_square_sum", arguments, reduction("ReduceSumSquare")},
      {"moments", "data, axes=None, keepdims=False", moments},
      {"cumsum _np_cumsum", "a, axis=None, dtype=None", cumulative_sum},
      {"argmax_channel", "data, axis=1, keepdims=False", index_of("ArgMax")},
      {"argmin", "data, axis=None, keepdims=False", index_of("ArgMin")},
  };
}

}  // namespace graft::mxnet
