// SPDX-License-Identifier: Apache-2.0
// What numpy's interface has (`mx.np`) along axes: sums, extremes and products of tensors. A result may have no axes.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "import/mxnet/attributes.h"
#include "import/mxnet/positions.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;
using Build = std::function<void(Conversion&)>;

/// The axes named; all where none is.
std::vector<int64_t> axes_of(Conversion& c, int rank) {
  std::vector<int64_t> axes = integers(c, "axis");
  for (int64_t& axis : axes) axis = c.axis(axis, rank);
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  return axes;
}

ValueId reduced(Conversion& c, std::string_view op, ValueId data, const std::vector<int64_t>& axes, bool keeps) {
  if (axes.empty()) return data;
  return c.add(op, {data, c.integers_constant(axes)}, {{"keepdims", int64_t{keeps}}});
}

/// The operand in the type that the result is to have.
ValueId operand(Conversion& c, std::string_view name) {
  const ValueId data = c.tensor(name);
  return given(c, "dtype") ? c.cast(data, type(c, "dtype")) : data;
}

/// Sums of integers have another type than these.
Build of_floats(std::string_view op) {
  return [op](Conversion& c) {
    const ValueId data = operand(c, "a");
    if (!is_float(c.type_of(data))) c.refuse("an operand of integers");
    if (given(c, "initial")) c.refuse("a value to begin with");
    c.give(reduced(c, op, data, axes_of(c, c.rank_of(data)), flag(c, "keepdims")));
  };
}

Build extreme(std::string_view op) {
  return [op](Conversion& c) {
    const ValueId data = c.tensor("a");
    if (given(c, "initial")) c.refuse("a value to begin with");
    c.give(reduced(c, op, data, axes_of(c, c.rank_of(data)), flag(c, "keepdims")));
  };
}

/// Whether any or all elements are not zero.
Build truth(std::string_view op) {
  return [op](Conversion& c) {
    const ValueId data = c.cast(c.cast(c.tensor("data"), DType::kBool), DType::kFloat32);
    c.give(c.cast(reduced(c, op, data, axes_of(c, c.rank_of(data)), flag(c, "keepdims")), DType::kBool));
  };
}

/// The mean squared distance from the mean, over ddof elements less.
ValueId variance(Conversion& c) {
  const ValueId data = operand(c, "a");
  if (!is_float(c.type_of(data))) c.refuse("an operand of integers");
  const std::vector<int64_t> axes = axes_of(c, c.rank_of(data));
  const ValueId away = c.add("Sub", {data, reduced(c, "ReduceMean", data, axes, true)});
  const ValueId square = reduced(c, "ReduceMean", c.add("Mul", {away, away}), axes, flag(c, "keepdims"));
  const int64_t less = integer(c, "ddof");
  if (less == 0) return square;
  int64_t count = 1;
  for (const int64_t axis : axes) {
    const auto size = c.size_of(data, axis).as_constant();
    if (!size) c.refuse("a ddof beside a size that is known only while running");
    count = c.product(count, *size);
  }
  if (less < 0 || less >= count) c.refuse("a ddof that leaves nothing");
  const double factor = static_cast<double>(count) / static_cast<double>(count - less);
  return c.add("Mul", {square, c.real_constant(factor, c.type_of(square))});
}

Build index_of(std::string_view op) {
  return [op](Conversion& c) {
    ValueId data = c.tensor("data");
    const bool all = !given(c, "axis"), keeps = flag(c, "keepdims");
    if (all && keeps) c.refuse("an index into all elements that keeps axes");
    if (all) data = c.add("Reshape", {data, c.integers_constant({-1})});
    const int64_t axis = all ? 0 : c.axis(integer(c, "axis"), c.rank_of(data));
    c.give(c.cast(c.add(op, {data}, {{"axis", axis}, {"keepdims", int64_t{keeps}}}), DType::kInt64));
  };
}

/// Each element less the one before it, so many times.
void differences(Conversion& c) {
  ValueId data = c.tensor("a");
  const int64_t axis = c.axis(integer(c, "axis"), c.rank_of(data)), times = integer(c, "n");
  if (times < 0 || times > 16) c.refuse(fmt::format("{} differences", times));
  const auto part = [&](int64_t begin, int64_t end) {
    return c.add("Slice", {data, c.integers_constant({begin}), c.integers_constant({end}),
                           c.integers_constant({axis})});
  };
  for (int64_t i = 0; i < times; ++i) data = c.add("Sub", {part(1, INT64_MAX), part(0, -1)});
  c.give(data);
}

void matmul(Conversion& c) {
  const ValueId a = c.tensor("a"), b = c.tensor("b");
  if (c.type_of(a) != c.type_of(b)) c.refuse("operands of different types");
  c.give(c.add("MatMul", {a, b}));
}

/// numpy.dot: the last axis of the one with the last but one of the other.
void dot(Conversion& c) {
  const ValueId a = c.tensor("a"), b = c.tensor("b");
  if (c.type_of(a) != c.type_of(b)) c.refuse("operands of different types");
  if (c.rank_of(a) == 0 || c.rank_of(b) == 0) return c.give(c.add("Mul", {a, b}));
  if (c.rank_of(b) > 2) c.refuse("a second operand of more than two axes");
  c.give(c.add("MatMul", {a, b}));
}

/// The sums over some axes of the one and as many of the other, as an equation of Einsum.
void summed_over(Conversion& c, std::vector<int64_t> of_a, std::vector<int64_t> of_b) {
  const ValueId a = c.tensor("a"), b = c.tensor("b");
  const int rank_a = c.rank_of(a), rank_b = c.rank_of(b);
  if (c.type_of(a) != c.type_of(b)) c.refuse("operands of different types");
  if (of_a.size() != of_b.size() || rank_a + rank_b > 26) c.refuse("axes that do not go together");
  std::string first, second, result;
  for (int i = 0; i < rank_a; ++i) first += static_cast<char>('a' + i);
  for (int i = 0; i < rank_b; ++i) second += static_cast<char>('a' + rank_a + i);
  for (size_t i = 0; i < of_a.size(); ++i) {
    second[static_cast<size_t>(c.axis(of_b[i], rank_b))] = first[static_cast<size_t>(c.axis(of_a[i], rank_a))];
  }
  for (const char each : first + second) {
    const bool in_both = first.find(each) != first.npos && second.find(each) != second.npos;
    if (!in_both) result += each;
  }
  c.give(c.add("Einsum", {a, b}, {{"equation", first + "," + second + "->" + result}}));
}

void tensordot(Conversion& c) { summed_over(c, integers(c, "a_axes_summed"), integers(c, "b_axes_summed")); }

void tensordot_of_inner_axes(Conversion& c) {
  const int64_t count = integer(c, "axes");
  if (count < 0 || count > c.rank_of(c.tensor("a"))) c.refuse("more axes than there are");
  std::vector<int64_t> of_a, of_b;
  for (int64_t i = 0; i < count; ++i) of_a.push_back(i - count), of_b.push_back(i);
  summed_over(c, of_a, of_b);
}

void einsum(Conversion& c) {
  std::string equation = c.text("subscripts");
  std::erase(equation, ' ');
  c.give(c.add("Einsum", c.inputs(), {{"equation", equation}}));
}

}  // namespace

std::vector<Row> numpy_reduction_rows() {
  const std::string_view typed = "a, axis=None, dtype=None, keepdims=False, initial=None";
  const std::string_view spread = "a, axis=None, dtype=None, ddof=0, keepdims=False";
  return {
      {"_np_sum", typed, of_floats("ReduceSum")},
      {"_np_prod", typed, of_floats("ReduceProd")},
      {"_npi_mean", typed, of_floats("ReduceMean")},
      {"_np_max", "a, axis=None, keepdims=False, initial=None", extreme("ReduceMax")},
      {"_np_min", "a, axis=None, keepdims=False, initial=None", extreme("ReduceMin")},
      {"_np_any", "data, axis=None, keepdims=False", truth("ReduceMax")},
      {"_np_all", "data, axis=None, keepdims=False", truth("ReduceMin")},
      {"_npi_var", spread, [](Conversion& c) { c.give(variance(c)); }},
      {"_npi_std", spread, [](Conversion& c) { c.give(c.add("Sqrt", {variance(c)})); }},
      {"_npi_argmax", "data, axis=None, keepdims=False", index_of("ArgMax")},
      {"_npi_argmin", "data, axis=None, keepdims=False", index_of("ArgMin")},
      {"_npi_diff", "a, n=1, axis=-1", differences},
      {"_npi_matmul", "a, b", matmul},
      {"_np_dot", "a, b", dot},
      {"_npi_tensordot", "a, b, a_axes_summed=(), b_axes_summed=()", tensordot},
      {"_npi_tensordot_int_axes", "a, b, axes", tensordot_of_inner_axes},
      {"_npi_einsum", "... data, num_args=0, subscripts=, optimize=0", einsum},
  };
}

}  // namespace graft::mxnet
