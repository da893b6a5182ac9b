// SPDX-License-Identifier: Apache-2.0
// What numpy's interface has (`mx.np`) to move elements: shapes are as numpy has them, where 0 is a size.
#include <algorithm>
#include <charconv>
#include <numeric>

#include <fmt/format.h>

#include "import/mxnet/attributes.h"
#include "import/mxnet/positions.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

constexpr int64_t kToTheEnd = INT64_MAX;

ValueId sliced(Conversion& c, ValueId data, int64_t begin, int64_t end, int64_t axis) {
  return c.add("Slice", {data, c.integers_constant({begin}), c.integers_constant({end}), c.integers_constant({axis})});
}

/// A row may have -1, what is left. Codes below it are npx.reshape's own.
void reshape(Conversion& c) {
  if (word(c, "order") != "C") c.refuse("an order of elements other than C");
  const std::vector<int64_t> shape = integers(c, "newshape");
  if (std::ranges::any_of(shape, [](int64_t size) { return size < -1; })) c.refuse("a code in its shape");
  c.give(c.add("Reshape", {c.tensor("a"), c.integers_constant(shape)}, {{"allowzero", int64_t{1}}}));
}

/// The same with -2, which copies an axis, and -3, which leaves one of size 1 out; -4 copies all that are left.
void reshape_by_codes(Conversion& c) {
  if (word(c, "order") != "C") c.refuse("an order of elements other than C");
  if (flag(c, "reverse")) c.refuse("a shape that is read from behind");
  const ValueId data = c.tensor("a");
  int64_t axis = 0;
  std::vector<ValueId> parts;
  const auto copy = [&](int64_t begin, int64_t end) {
    if (end > c.rank_of(data)) c.refuse("a shape that copies more axes than there are");
    if (begin < end) parts.push_back(c.add("Shape", {data}, {{"start", begin}, {"end", end}}));
  };
  for (const int64_t code : integers(c, "newshape")) {
    if (code >= -1) {
      parts.push_back(c.integers_constant({code}));
      ++axis;
    } else if (code == -2) {
      copy(axis, axis + 1);
      ++axis;
    } else if (code == -3) {
      ++axis;
    } else if (code == -4) {
      copy(axis, c.rank_of(data));
      axis = c.rank_of(data);
    } else {
      c.refuse(fmt::format("{} in its shape", code));
    }
  }
  if (parts.empty()) c.refuse("a result without axes");
  const ValueId shape = parts.size() == 1 ? parts[0] : c.add("Concat", parts, {{"axis", int64_t{0}}});
  c.give(c.add("Reshape", {data, shape}, {{"allowzero", int64_t{1}}}));
}

void squeeze(Conversion& c) {
  const ValueId data = c.tensor("a");
  const int rank = c.rank_of(data);
  std::vector<int64_t> axes = integers(c, "axis");
  for (int64_t& axis : axes) axis = c.axis(axis, rank);
  for (int axis = 0; axis < rank && !given(c, "axis"); ++axis) {
    const auto size = c.size_of(data, axis).as_constant();
    if (!size) c.refuse("whether an axis has size 1 is known only while running");
    if (*size == 1) axes.push_back(axis);
  }
  c.give(axes.empty() ? data : c.add("Squeeze", {data, c.integers_constant(axes)}));
}

void transpose(Conversion& c) {
  const ValueId data = c.tensor("a");
  std::vector<int64_t> order = integers(c, "axes");
  for (int64_t& axis : order) axis = c.axis(axis, c.rank_of(data));
  if (order.empty()) {
    order.resize(static_cast<size_t>(c.rank_of(data)));
    std::iota(order.rbegin(), order.rend(), 0);
  }
  c.give(c.add("Transpose", {data}, {{"perm", order}}));
}

void move_axes(Conversion& c) {
  const ValueId data = c.tensor("a");
  const int rank = c.rank_of(data);
  std::vector<int64_t> from = integers(c, "source"), to = integers(c, "destination");
  if (from.size() != to.size()) c.refuse("a source and a destination of different lengths");
  std::vector<int64_t> order(static_cast<size_t>(rank), -1);
  std::vector<bool> moved(static_cast<size_t>(rank), false);
  for (size_t i = 0; i < from.size(); ++i) {
    const auto source = static_cast<size_t>(c.axis(from[i], rank)), place = static_cast<size_t>(c.axis(to[i], rank));
    if (moved[source] || order[place] >= 0) c.refuse("an axis that is moved twice");
    moved[source] = true;
    order[place] = static_cast<int64_t>(source);
  }
  int64_t next = 0;
  for (int64_t& place : order) {
    if (place >= 0) continue;
    while (moved[static_cast<size_t>(next)]) ++next;
    place = next++;
  }
  c.give(c.add("Transpose", {data}, {{"perm", order}}));
}

/// The last elements of an axis, as many as it is moved by, come first.
ValueId rolled(Conversion& c, ValueId data, int64_t shift, int64_t axis) {
  const auto size = c.size_of(data, axis).as_constant();
  if (!size) c.refuse("an axis whose size is known only while running");
  const int64_t last = *size == 0 ? 0 : ((shift % *size) + *size) % *size;
  if (last == 0) return data;
  return c.add("Concat", {sliced(c, data, -last, kToTheEnd, axis), sliced(c, data, 0, -last, axis)}, {{"axis", axis}});
}

void roll(Conversion& c) {
  ValueId data = c.tensor("data");
  std::vector<int64_t> shifts = integers(c, "shift"), axes = integers(c, "axis");
  if (axes.empty()) {  // of all elements in their order
    if (shifts.size() != 1) c.refuse("several distances without axes");
    const ValueId row = c.add("Reshape", {data, c.integers_constant({-1})});
    return c.give(c.add("Reshape", {rolled(c, row, shifts[0], 0), c.add("Shape", {data})}));
  }
  if (shifts.size() == 1) shifts.resize(axes.size(), shifts[0]);
  if (shifts.size() != axes.size()) c.refuse("distances and axes of different lengths");
  for (size_t i = 0; i < axes.size(); ++i) data = rolled(c, data, shifts[i], c.axis(axes[i], c.rank_of(data)));
  c.give(data);
}

void broadcast_to(Conversion& c) {
  const std::vector<int64_t> shape = integers(c, "shape");
  if (std::ranges::any_of(shape, [](int64_t size) { return size < 0; })) c.refuse("a code in its shape");
  c.give(c.add("Expand", {c.tensor("array"), c.integers_constant(shape)}));
}

/// `((1, 2), (0, 0))`: the numbers, in their order.
std::vector<int64_t> all_integers(const std::string& text) {
  std::vector<int64_t> numbers;
  for (size_t at = 0; at < text.size();) {
    int64_t number = 0;
    const auto [end, fault] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (fault == std::errc()) numbers.push_back(number);
    at = fault == std::errc() ? static_cast<size_t>(end - text.data()) : at + 1;
  }
  return numbers;
}

void pad(Conversion& c) {
  const ValueId data = c.tensor("data");
  const auto rank = static_cast<size_t>(c.rank_of(data));
  const std::vector<int64_t> width = all_integers(c.text("pad_width"));
  const std::string mode = word(c, "mode");
  if (width.size() != 2 * rank) c.refuse("a pad_width without two ends for each axis");
  if (mode == "reflect" && word(c, "reflect_type") != "even") c.refuse("an odd reflection");
  std::vector<int64_t> pads(width.size());
  for (size_t i = 0; i < width.size(); ++i) pads[(i % 2) * rank + i / 2] = width[i];
  const ValueId fill = mode == "constant" ? c.real_constant(real(c, "constant_value"), c.type_of(data)) : kNoValue;
  c.give(c.add("Pad", {data, c.integers_constant(pads), fill}, {{"mode", mode}}));
}

/// With axes in front, or behind those that are there, so that there are so many.
ValueId with_axes(Conversion& c, ValueId data, int rank) {
  const int has = c.rank_of(data);
  if (has >= rank) return data;
  if (rank == 3 && has == 2) return c.add("Unsqueeze", {data, c.integers_constant({2})});
  if (rank == 3 && has == 1) return c.add("Unsqueeze", {data, c.integers_constant({0, 2})});
  std::vector<int64_t> axes(static_cast<size_t>(rank - has));
  std::iota(axes.begin(), axes.end(), 0);
  return c.add("Unsqueeze", {data, c.integers_constant(axes)});
}

std::function<void(Conversion&)> at_least(int rank) {
  return [rank](Conversion& c) {
    std::vector<ValueId> made;
    for (const ValueId each : c.inputs()) made.push_back(with_axes(c, each, rank));
    c.give(std::move(made));
  };
}

/// One below the other; a row is a matrix of one.
void stack_rows(Conversion& c) {
  std::vector<ValueId> parts;
  for (const ValueId each : c.inputs()) parts.push_back(with_axes(c, each, 2));
  c.give(c.add("Concat", std::move(parts), {{"axis", int64_t{0}}}));
}

void concatenate(Conversion& c) {
  if (!given(c, "axis")) c.refuse("what is joined without an axis");
  c.give(c.add("Concat", c.inputs(), {{"axis", integer(c, "axis")}}));
}

/// Rows become columns.
void stack_columns(Conversion& c) {
  std::vector<ValueId> parts;
  for (const ValueId each : c.inputs()) {
    parts.push_back(c.rank_of(each) == 1 ? c.add("Unsqueeze", {each, c.integers_constant({1})}) : each);
  }
  c.give(c.add("Concat", std::move(parts), {{"axis", int64_t{1}}}));
}

/// A quarter turn so many times, from the first axis towards the second.
void rotate(Conversion& c) {
  ValueId data = c.tensor("data");
  std::vector<int64_t> axes = integers(c, "axes");
  if (axes.empty()) axes = {0, 1};
  if (axes.size() != 2) c.refuse("a plane of other than two axes");
  for (int64_t& axis : axes) axis = c.axis(axis, c.rank_of(data));
  const auto flipped = [&](ValueId value, int64_t axis) {
    return c.add("Slice", {value, c.integers_constant({-1}), c.integers_constant({-kToTheEnd}),
                           c.integers_constant({axis}), c.integers_constant({-1})});
  };
  std::vector<int64_t> order(static_cast<size_t>(c.rank_of(data)));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(axes[0])], order[static_cast<size_t>(axes[1])]);
  const int64_t turns = ((integer(c, "k") % 4) + 4) % 4;
  if (turns == 2) return c.give(flipped(flipped(data, axes[0]), axes[1]));
  if (turns == 1) data = c.add("Transpose", {flipped(data, axes[1])}, {{"perm", order}});
  if (turns == 3) data = flipped(c.add("Transpose", {data}, {{"perm", order}}), axes[1]);
  c.give(data);
}

/// What lies on a diagonal of two axes, as a last axis.
ValueId diagonal_of(Conversion& c, ValueId data, int64_t offset, int64_t first, int64_t second) {
  const int rank = c.rank_of(data);
  first = c.axis(first, rank), second = c.axis(second, rank);
  const auto rows = c.size_of(data, first).as_constant(), columns = c.size_of(data, second).as_constant();
  if (first == second || !rows || !columns) c.refuse("a diagonal of axes whose sizes are known only while running");
  std::vector<int64_t> order, places;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (axis != first && axis != second) order.push_back(axis);
  }
  order.push_back(first), order.push_back(second);
  const int64_t row = std::max<int64_t>(-offset, 0), column = std::max<int64_t>(offset, 0);
  for (int64_t i = 0; row + i < *rows && column + i < *columns; ++i) {
    places.push_back((row + i) * *columns + column + i);
  }
  if (places.empty()) c.refuse("a diagonal outside of the matrix");
  std::vector<int64_t> shape(static_cast<size_t>(rank - 2), 0);
  shape.push_back(-1);
  const ValueId flat = c.add("Reshape", {c.add("Transpose", {data}, {{"perm", order}}), c.integers_constant(shape)});
  return c.add("Gather", {flat, c.integers_constant(places)}, {{"axis", int64_t{rank - 2}}});
}

/// A matrix whose diagonal the last axis is.
ValueId matrix_of(Conversion& c, ValueId row, int64_t offset) {
  const int rank = c.rank_of(row);
  const auto size = c.size_of(row, rank - 1).as_constant();
  if (!size || *size > 4096 || std::abs(offset) > 4096) c.refuse("a diagonal whose size is known only while running");
  const int64_t side = *size + std::abs(offset);
  std::vector<int64_t> pads(static_cast<size_t>(2 * rank), 0);
  pads[static_cast<size_t>(rank - 1)] = std::max<int64_t>(offset, 0);       // columns stand so far to the right
  pads[static_cast<size_t>(2 * rank - 1)] = std::max<int64_t>(-offset, 0);  // or rows so far down
  const ValueId wide = c.add("Pad", {row, c.integers_constant(pads), c.real_constant(0, c.type_of(row))});
  const ValueId across = c.add("Unsqueeze", {wide, c.integers_constant({rank - 1})});
  TensorData mask = TensorData::zeros(DType::kBool, {side, side});
  for (int64_t i = 0; i < *size; ++i) {
    const int64_t down = i + std::max<int64_t>(-offset, 0), right = i + std::max<int64_t>(offset, 0);
    mask.write_integer(down * side + right, 1);
  }
  // In column j stands element j of what was padded in front; with rows further down, of what was padded behind.
  return c.add("Where", {c.constant(std::move(mask)), across, c.real_constant(0, c.type_of(row))});
}

void diagonal(Conversion& c) {
  c.give(diagonal_of(c, c.tensor("data"), integer(c, "offset"), integer(c, "axis1"), integer(c, "axis2")));
}

void trace(Conversion& c) {
  const ValueId data = c.tensor("data");
  if (!is_float(c.type_of(data))) c.refuse("an operand of integers");
  const ValueId line = diagonal_of(c, data, integer(c, "offset"), integer(c, "axis1"), integer(c, "axis2"));
  c.give(c.add("ReduceSum", {line, c.integers_constant({-1})}, {{"keepdims", int64_t{0}}}));
}

/// Of a row a matrix, of a matrix its diagonal; with axes of its own, of more axes, too.
std::function<void(Conversion&)> diag(bool has_axes) {
  return [has_axes](Conversion& c) {
    const ValueId data = c.tensor("data");
    const int64_t offset = integer(c, "k");
    if (c.rank_of(data) == 1) return c.give(matrix_of(c, data, offset));
    c.give(diagonal_of(c, data, offset, has_axes ? integer(c, "axis1") : 0, has_axes ? integer(c, "axis2") : 1));
  };
}

void diag_of_all(Conversion& c) {
  c.give(matrix_of(c, c.add("Reshape", {c.tensor("data"), c.integers_constant({-1})}), integer(c, "k")));
}

void extract_diagonal(Conversion& c) { c.give(diagonal_of(c, c.tensor("A"), integer(c, "offset"), -2, -1)); }
void make_diagonal(Conversion& c) { c.give(matrix_of(c, c.tensor("A"), integer(c, "offset"))); }

/// The sum of the logarithms of a diagonal.
void sum_of_logarithms(Conversion& c) {
  const ValueId data = c.tensor("A");
  const ValueId line = c.add("Log", {diagonal_of(c, data, 0, -2, -1)});
  const ValueId sum = c.add("ReduceSum", {line, c.integers_constant({-1})}, {{"keepdims", int64_t{0}}});
  c.give(c.rank_of(sum) == 0 ? c.add("Reshape", {sum, c.integers_constant({1})}) : sum);
}

void lower_triangle(Conversion& c) {
  const ValueId data = c.tensor("data");
  if (c.rank_of(data) < 2) c.refuse("an operand that is no matrix");
  c.give(c.add("Trilu", {data, integer_scalar(c, integer(c, "k"))}, {{"upper", int64_t{0}}}));
}

}  // namespace

std::vector<Row> numpy_movement_rows() {
  return {
      {"_np_reshape", "a, newshape, order=C", reshape},
      {"_npx_reshape", "a, newshape, reverse=False, order=C", reshape_by_codes},
      {"_np_squeeze", "a, axis=None", squeeze},
      {"_np_transpose", "a, axes=None", transpose},
      {"_np_moveaxis", "a, source, destination", move_axes},
      {"_np_roll", "data, shift=(), axis=()", roll},
      {"_npi_rot90", "data, k=1, axes=()", rotate},
      {"_npi_broadcast_to", "array, shape=()", broadcast_to},
      {"_npi_pad", "data, pad_width, mode=constant, constant_value=0, reflect_type=even", pad},
      {"_np_atleast_1d", "... arys, num_args=0", at_least(1)},
      {"_np_atleast_2d", "... arys, num_args=0", at_least(2)},
      {"_np_atleast_3d", "... arys, num_args=0", at_least(3)},
      {"_npi_vstack", "... data, num_args=0", stack_rows},
      {"_npi_concatenate", "... data, num_args=0, axis=0", concatenate},
      {"_npi_column_stack", "... data, num_args=0", stack_columns},
      {"_np_diag", "data, k=0", diag(false)},
      {"diag", "data, k=0, axis1=0, axis2=1", diag(true)},
      {"_np_diagflat", "data, k=0", diag_of_all},
      {"_np_diagonal", "data, offset=0, axis1=0, axis2=1", diagonal},
      {"_np_trace", "data, offset=0, axis1=0, axis2=1", trace},
      {"_npi_tril", "data, k=0", lower_triangle},
      {"_linalg_extractdiag", "A, offset=0", extract_diagonal},
      {"_linalg_makediag", "A, offset=0", make_diagonal},
      {"_linalg_sumlogdiag", "A", sum_of_logarithms},
  };
}

}  // namespace graft::mxnet
