// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "import/aten/axes.h"
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

// ---- Slices ----

int64_t axis_argument(Conversion& c, std::string_view name = "dim") {
  return c.axis(c.integer(name), c.rank_of(c.tensor("self")));
}

void slice(Conversion& c) {
  const ValueId self = c.tensor("self");
  const ValueId start = c.has("start") ? c.shape_tensor("start") : c.integers_constant({0});
  const ValueId end = c.has("end") ? c.shape_tensor("end") : c.integers_constant({kToTheEnd});
  c.give(c.add("Slice", {self, start, end, c.integers_constant({axis_argument(c)}), c.shape_tensor("step")}));
}

/// A constant index is a slice, of which nothing is copied.
void select(Conversion& c) {
  const ValueId self = c.tensor("self");
  const int64_t axis = axis_argument(c);
  const auto* index = std::get_if<int64_t>(&c.argument("index").is);
  if (!index) return c.give(c.add("Gather", {self, c.cast(c.tensor("index"), DType::kInt64)}, {{"axis", axis}}));
  const ValueId one = sliced(c, self, axis, *index, *index == -1 ? kToTheEnd : c.sum(*index, 1));
  c.give(c.add("Squeeze", {one, c.integers_constant({axis})}));
}

void narrow(Conversion& c) {
  const int64_t axis = axis_argument(c);
  const ValueId start = c.shape_tensor("start"), end = c.add("Add", {start, c.shape_tensor("length")});
  c.give(c.add("Slice", {c.tensor("self"), start, end, c.integers_constant({axis})}));
}

/// The tensor with `src` put at positions along an axis, of each of which it is known where it comes from.
void put_along(Conversion& c, ValueId src, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  const ValueId self = c.tensor("self");
  const auto size = c.size_of(self, axis).as_constant();
  src = c.cast(src, c.type_of(self));
  if (!size) c.refuse("its axis has a size known only while running");
  const auto inside = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + *size : at, 0, *size); };
  begin = inside(begin), end = inside(end), step = std::min(step, *size + 1);
  TensorData from = table(c, DType::kInt64, {*size});
  std::vector<int64_t> shape(static_cast<size_t>(c.rank_of(self)), 1);
  shape[static_cast<size_t>(axis)] = *size;
  TensorData replaced = TensorData::zeros(DType::kBool, shape);
  for (int64_t at = begin; at < end; at += step) {
    from.write_integer(at, (at - begin) / step);
    replaced.write_integer(at, 1);
  }
  const ValueId moved = c.add("Gather", {src, c.constant(std::move(from))}, {{"axis", axis}});
  c.give(c.add("Where", {c.constant(std::move(replaced)), moved, self}));
}

void slice_scatter(Conversion& c) {
  const int64_t begin = c.has("start") ? c.integer("start") : 0, end = c.has("end") ? c.integer("end") : kToTheEnd;
  const int64_t step = c.integer("step"), axis = axis_argument(c);
  if (step < 1) c.refuse("a step that is not positive");
  if (begin == 0 && end == kToTheEnd && step == 1) {
    return c.give(c.cast(c.tensor("src"), c.type_of(c.tensor("self"))));
  }
  put_along(c, c.tensor("src"), axis, begin, end, step);
}

void select_scatter(Conversion& c) {
  const int64_t axis = axis_argument(c), index = c.integer("index");
  const ValueId src = c.add("Unsqueeze", {c.tensor("src"), c.integers_constant({axis})});
  put_along(c, src, axis, index, index == -1 ? kToTheEnd : c.sum(index, 1), 1);
}

/// The diagonal of two axes, as a last axis.
void diagonal(Conversion& c) {
  const ValueId self = c.tensor("self");
  const int64_t a = axis_argument(c, "dim1"), b = axis_argument(c, "dim2"), offset = c.integer("offset");
  const auto rows = c.size_of(self, a).as_constant(), columns = c.size_of(self, b).as_constant();
  if (!rows || !columns) c.refuse("its axes have sizes known only while running");
  const int64_t row = std::max<int64_t>(c.product(offset, -1), 0), column = std::max<int64_t>(offset, 0);
  const int64_t count = std::max<int64_t>(std::min(*rows - row, *columns - column), 0);
  std::vector<int64_t> order;
  for (int64_t axis = 0; axis < c.rank_of(self); ++axis) {
    if (axis != a && axis != b) order.push_back(axis);
  }
  order.insert(order.end(), {a, b});
  const int64_t total = c.product(*rows, *columns);
  TensorData at = table(c, DType::kInt64, {count});
  for (int64_t i = 0; i < count; ++i) at.write_integer(i, (row + i) * *columns + column + i);
  const ValueId moved = transposed(c, self, order);
  const ValueId shape = joined(c, {sizes(c, moved, 0, c.rank_of(self) - 2), c.integers_constant({total})});
  const ValueId flat = c.add("Reshape", {moved, shape});
  c.give(c.add("Gather", {flat, c.constant(std::move(at))}, {{"axis", int64_t{-1}}}));
}

/// Of `count` windows the places that each has on its axis.
ValueId places_in_windows(Conversion& c, int64_t count, int64_t size, int64_t step) {
  TensorData at = table(c, DType::kInt64, {count, size});
  for (int64_t i = 0; i < count * size; ++i) at.write_integer(i, i / size * step + i % size);
  return c.constant(std::move(at));
}

/// The same of as many windows as lie on an axis of a size that only a run knows.
ValueId places_in_windows(Conversion& c, ValueId total, int64_t size, int64_t step) {
  const auto number = [&](int64_t value) { return c.real_constant(static_cast<double>(value), DType::kInt64); };
  const ValueId length = c.add("Squeeze", {total, c.integers_constant({0})});
  const ValueId end = c.add("Sub", {length, number(size - 1)});  // behind the last place where a window can begin
  const ValueId starts = c.add("Range", {number(0), end, number(step)});
  const ValueId column = c.add("Unsqueeze", {starts, c.integers_constant({1})});
  std::vector<int64_t> within(static_cast<size_t>(table(c, DType::kInt64, {size}).element_count()));
  std::iota(within.begin(), within.end(), 0);
  return c.add("Add", {column, c.integers_constant(within)});
}

/// Windows of an axis, as a last axis.
void unfold(Conversion& c) {
  const ValueId self = c.tensor("self");
  const int64_t axis = c.axis(c.integer("dimension"), c.rank_of(self)), size = c.integer("size"),
                step = c.integer("step");
  const auto total = c.size_of(self, axis).as_constant();
  if (size < 1 || step < 1 || (total && size > *total)) c.refuse("windows that do not lie inside of its axis");
  const ValueId at = total ? places_in_windows(c, (*total - size) / step + 1, size, step)
                           : places_in_windows(c, sizes(c, self, axis, axis + 1), size, step);
  const ValueId windows = c.add("Gather", {self, at}, {{"axis", axis}});
  std::vector<int64_t> order(static_cast<size_t>(c.rank_of(windows)));
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + axis + 1);
  order.push_back(axis + 1);
  c.give(transposed(c, windows, order));
}

Build triangle(int64_t upper) {
  return [upper](Conversion& c) {
    const ValueId k = c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {c.integer("diagonal")}));
    c.give(c.add("Trilu", {c.tensor("self"), k}, {{"upper", upper}}));
  };
}

// ---- Elements by tensors of indices ----

void index_select(Conversion& c) {
  ValueId index = indices(c, "index");
  if (c.rank_of(index) == 0) index = c.add("Reshape", {index, c.integers_constant({1})});
  c.give(c.add("Gather", {c.tensor("self"), index}, {{"axis", axis_argument(c)}}));
}

void gather(Conversion& c) {
  c.give(c.add("GatherElements", {c.tensor("self"), indices(c, "index")}, {{"axis", axis_argument(c)}}));
}

void embedding(Conversion& c) {
  c.give(c.add("Gather", {c.tensor("weight"), indices(c, "indices")}, {{"axis", int64_t{0}}}));
}

/// x[i, :, j] has its indexed axes in front, indices as tuples behind each other.
struct Indexed {
  std::vector<int64_t> axes;   ///< indexed ones
  std::vector<int64_t> order;  ///< of the tensor: indexed axes, then the rest
  ValueId tuples = kNoValue;
  int index_rank = 0;
  bool adjacent = false;       ///< then the result has the indices' axes where the first indexed one was
};

Indexed read_indices(Conversion& c, ValueId self, const std::vector<ValueId>& given) {
  Indexed indexed;
  std::vector<ValueId> parts;
  for (size_t axis = 0; axis < given.size(); ++axis) {
    if (given[axis] == kNoValue) continue;
    indexed.axes.push_back(static_cast<int64_t>(axis));
    if (c.type_of(given[axis]) == DType::kBool) c.refuse("masks among its indices");
    parts.push_back(c.cast(given[axis], DType::kInt64));
    indexed.index_rank = std::max(indexed.index_rank, c.rank_of(given[axis]));
  }
  if (parts.empty()) c.refuse("no index");
  if (indexed.axes.back() >= c.rank_of(self)) c.refuse("more indices than axes");
  indexed.adjacent = indexed.axes.back() - indexed.axes.front() + 1 == std::ssize(indexed.axes);
  ValueId common = parts[0];  // what all of them broadcast to, as zeros
  for (size_t i = 1; i < parts.size(); ++i) common = c.add("Add", {common, parts[i]});
  const ValueId shape = c.add("Shape", {common});
  for (ValueId& part : parts) {
    if (parts.size() > 1) part = c.add("Expand", {part, shape});
    part = c.add("Unsqueeze", {part, c.integers_constant({-1})});
  }
  indexed.tuples = parts.size() == 1 ? parts[0] : c.add("Concat", parts, {{"axis", int64_t{-1}}});
  indexed.order = indexed.axes;
  for (int64_t axis = 0; axis < c.rank_of(self); ++axis) {
    if (std::find(indexed.axes.begin(), indexed.axes.end(), axis) == indexed.axes.end()) indexed.order.push_back(axis);
  }
  return indexed;
}

/// From [indices, rest] to where torch has the indices' axes, and back.
std::vector<int64_t> result_order(const Indexed& indexed, int rank) {
  std::vector<int64_t> order;
  const int64_t first = indexed.adjacent ? indexed.axes.front() : 0;
  for (int64_t axis = 0; axis < first; ++axis) order.push_back(indexed.index_rank + axis);
  for (int64_t axis = 0; axis < indexed.index_rank; ++axis) order.push_back(axis);
  for (int64_t axis = indexed.index_rank + first; axis < rank; ++axis) order.push_back(axis);
  return order;
}

std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return back;
}

void index(Conversion& c) {
  const ValueId self = c.tensor("self");
  const std::vector<ValueId> given = c.tensors("indices");
  if (given.size() == 1 && given[0] != kNoValue && c.type_of(given[0]) == DType::kBool) {  // as many as there are
    return c.give(c.add("GatherND", {self, transposed(c, c.add("NonZero", {given[0]}), {1, 0})}));
  }
  const Indexed indexed = read_indices(c, self, given);
  if (indexed.axes.size() == 1) {
    const ValueId at = c.cast(given[static_cast<size_t>(indexed.axes[0])], DType::kInt64);
    return c.give(c.add("Gather", {self, at}, {{"axis", indexed.axes[0]}}));
  }
  const ValueId made = c.add("GatherND", {transposed(c, self, indexed.order), indexed.tuples});
  c.give(transposed(c, made, result_order(indexed, c.rank_of(made))));
}

/// Rows where a mask holds: the same one everywhere, or the next of `values` each time.
void put_where(Conversion& c, ValueId self, ValueId mask, ValueId values) {
  if (c.flag("accumulate")) c.refuse("sums where a mask holds");
  const int behind = c.rank_of(self) - c.rank_of(mask);
  ValueId rows = values;
  if (c.rank_of(values) > behind && !c.size_of(values, 0).is(1)) {
    const ValueId zero = c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {0}));
    const ValueId flags = c.cast(c.add("Reshape", {mask, c.integers_constant({-1})}), DType::kInt64);
    const ValueId before = c.add("Sub", {c.add("CumSum", {flags, zero}), c.integers_constant({1})});
    const ValueId places = c.add("Reshape", {c.add("Max", {before, zero}), c.add("Shape", {mask})});
    rows = c.add("Gather", {values, places}, {{"axis", int64_t{0}}});
  }
  for (int axis = 0; axis < behind; ++axis) mask = c.add("Unsqueeze", {mask, c.integers_constant({-1})});
  c.give(c.add("Where", {mask, rows, self}));
}

/// Of equal indices the last value stays, or they add up.
void index_put(Conversion& c) {
  const ValueId self = c.tensor("self");
  const ValueId values = c.cast(c.tensor("values"), c.type_of(self));
  const std::vector<ValueId> given = c.tensors("indices");
  if (given.size() == 1 && given[0] != kNoValue && c.type_of(given[0]) == DType::kBool) {
    return put_where(c, self, given[0], values);
  }
  const Indexed indexed = read_indices(c, self, given);
  const ValueId front = transposed(c, self, indexed.order);
  const ValueId like = c.add("GatherND", {front, indexed.tuples});  // for its shape alone
  const std::vector<int64_t> order = result_order(indexed, c.rank_of(like));
  const ValueId spread = c.add("Expand", {values, c.add("Shape", {transposed(c, like, order)})});
  Attributes attributes;
  if (c.flag("accumulate")) attributes["reduction"] = std::string("add");
  const ValueId put = c.add("ScatterND", {front, indexed.tuples, transposed(c, spread, inverse(order))},
                            std::move(attributes));
  c.give(transposed(c, put, inverse(indexed.order)));
}

/// One for each element that is not zero, by its coordinates.
void nonzero(Conversion& c) { c.give(transposed(c, c.add("NonZero", {c.tensor("self")}), {1, 0})); }

void masked_select(Conversion& c) {
  const ValueId self = c.tensor("self"), mask = c.tensor("mask");
  const ValueId wide = c.add("Expand", {mask, c.add("Shape", {self})}),
                all = c.add("Expand", {self, c.add("Shape", {wide})});
  c.give(c.add("GatherND", {all, transposed(c, c.add("NonZero", {wide}), {1, 0})}));
}

/// Where the mask holds the elements of `source`, one after the other.
void masked_scatter(Conversion& c) {
  const ValueId self = c.tensor("self"), row = c.integers_constant({-1}), one = c.integers_constant({1});
  const ValueId mask = c.add("Expand", {c.tensor("mask"), c.add("Shape", {self})});
  const ValueId flags = c.cast(c.add("Reshape", {mask, row}), DType::kInt64);
  const ValueId axis = c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {0}));
  const ValueId before = c.add("Sub", {c.add("CumSum", {flags, axis}), one});
  const ValueId source = c.add("Reshape", {c.cast(c.tensor("source"), c.type_of(self)), row});
  const ValueId taken = c.add("Gather", {source, c.add("Max", {before, axis})}, {{"axis", int64_t{0}}});
  c.give(c.add("Where", {mask, c.add("Reshape", {taken, c.add("Shape", {self})}), self}));
}

void one_hot(Conversion& c) {
  const int64_t depth = c.integer("num_classes");
  if (depth < 1) c.refuse("classes that only the data tells");
  const ValueId values = c.integers_constant({0, 1});
  c.give(c.add("OneHot", {indices(c, "self"), c.integers_constant({depth}), values}));
}

}  // namespace

std::vector<Row> indexing_rows() {
  return {
      {"aten::slice.Tensor slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, "
       "SymInt step=1) -> Tensor", slice},
      {"aten::select.int select_copy.int(Tensor self, int dim, SymInt index) -> Tensor", select},
      {"aten::narrow(Tensor self, int dim, SymInt start, SymInt length) -> Tensor", narrow},
      {"aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, "
       "SymInt step=1) -> Tensor", slice_scatter},
      {"aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor", select_scatter},
      {"aten::diagonal diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor", diagonal},
      {"aten::unfold unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor", unfold},
      {"aten::tril tril_(Tensor self, int diagonal=0) -> Tensor", triangle(0)},
      {"aten::triu triu_(Tensor self, int diagonal=0) -> Tensor", triangle(1)},
      {"aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", index_select},
      {"aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", gather},
      {"aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
       "bool sparse=False) -> Tensor", embedding},
      {"aten::index.Tensor _unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", index},
      {"aten::index_put index_put_ _unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, "
       "bool accumulate=False) -> Tensor", index_put},
      {"aten::nonzero(Tensor self) -> Tensor", nonzero},
      {"aten::masked_select(Tensor self, Tensor mask) -> Tensor", masked_select},
      {"aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", masked_scatter},
      {"aten::one_hot(Tensor self, int num_classes=-1) -> Tensor", one_hot},
  };
}

}  // namespace graft::aten
