// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "import/mxnet/attributes.h"
#include "import/mxnet/positions.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

constexpr int64_t kDeepestOneHot = int64_t{1} << 24;  // the depth is a constant of so many elements

/// Indices, which may be floats, into an axis: those outside count as the nearest element, or, with the mode `wrap`,
/// from the other end on.
ValueId inside(Conversion& c, ValueId data, ValueId indices, int64_t axis) {
  const auto size = c.size_of(data, axis).as_constant();
  const std::string mode = word(c, "mode");
  if (!size) c.refuse("indices into an axis whose size is known only while running");
  if (mode != "clip" && mode != "wrap") c.refuse(fmt::format("indices in the mode '{}'", mode));
  const ValueId whole = c.cast(indices, DType::kInt64);
  if (mode == "wrap") return c.add("Mod", {whole, integer_scalar(c, *size)});
  return c.add("Clip", {whole, integer_scalar(c, 0), integer_scalar(c, *size - 1)});
}

/// Rows of a table by indices that may be floats; those outside count as the nearest row.
ValueId gather_clipped(Conversion& c, ValueId table, ValueId indices, int64_t axis) {
  const auto size = c.size_of(table, axis).as_constant();
  if (!size) c.refuse("indices into an axis whose size is known only while running");
  const ValueId whole = c.cast(indices, DType::kInt64);
  const ValueId clipped = c.add("Clip", {whole, integer_scalar(c, 0), integer_scalar(c, *size - 1)});
  return c.add("Gather", {table, clipped}, {{"axis", axis}});
}

void embedding(Conversion& c) { c.give(gather_clipped(c, c.tensor("weight"), c.tensor("data"), 0)); }

void take(Conversion& c) {
  const ValueId table = c.tensor("a");
  const int64_t axis = c.axis(integer(c, "axis"), c.rank_of(table));
  c.give(c.add("Gather", {table, inside(c, table, c.tensor("indices"), axis)}, {{"axis", axis}}));
}

/// One element of each row along an axis.
ValueId picked(Conversion& c, ValueId data, ValueId indices, int64_t axis) {
  if (c.rank_of(indices) + 1 == c.rank_of(data)) indices = c.add("Unsqueeze", {indices, c.integers_constant({axis})});
  if (c.rank_of(indices) != c.rank_of(data)) c.refuse("indices of another rank");
  return c.add("GatherElements", {data, inside(c, data, indices, axis)}, {{"axis", axis}});
}

void pick(Conversion& c) {
  const ValueId data = c.tensor("data");
  if (!given(c, "axis")) c.refuse("a choice among all elements");
  const int64_t axis = c.axis(integer(c, "axis"), c.rank_of(data));
  const ValueId made = picked(c, data, c.tensor("index"), axis);
  const bool drops = !flag(c, "keepdims") && c.rank_of(data) > 1;
  c.give(drops ? c.add("Squeeze", {made, c.integers_constant({axis})}) : made);
}

void batch_take(Conversion& c) {
  const ValueId data = c.tensor("a");
  if (c.rank_of(data) != 2) c.refuse("a table that is no matrix");
  c.give(c.add("Squeeze", {picked(c, data, c.tensor("indices"), 1), c.integers_constant({1})}));
}

/// The indices' first axis goes over coordinates; ONNX has it last.
void gather_nd(Conversion& c) {
  const ValueId indices = c.cast(c.tensor("indices"), DType::kInt64);
  std::vector<int64_t> order;
  for (int64_t axis = 1; axis < c.rank_of(indices); ++axis) order.push_back(axis);
  order.push_back(0);
  c.give(c.add("GatherND", {c.tensor("data"), c.add("Transpose", {indices}, {{"perm", order}})}));
}

/// An index outside of the depth gives a row of off_value alone.
void one_hot(Conversion& c) {
  const DType wanted = type(c, "dtype");
  const ValueId indices = c.cast(c.tensor("indices"), DType::kInt64);
  const int64_t depth = integer(c, "depth");
  if (depth < 0 || depth > kDeepestOneHot) c.refuse(fmt::format("a depth of {}", depth));
  TensorData range = TensorData::zeros(DType::kInt64, {depth});
  for (int64_t i = 0; i < depth; ++i) range.write_integer(i, i);
  const ValueId column = c.add("Unsqueeze", {indices, c.integers_constant({-1})});
  const ValueId hit = c.add("Equal", {column, c.constant(std::move(range))});
  c.give(c.add("Where", {hit, c.real_constant(real(c, "on_value"), wanted),
                         c.real_constant(real(c, "off_value"), wanted)}));
}

/// A condition of any type, which holds where it is not zero.
void where(Conversion& c) {
  ValueId condition = c.tensor("condition");
  const ValueId x = c.tensor("x");
  if (c.rank_of(condition) == 1 && c.rank_of(x) > 1) {  // one for each row
    condition = c.add("Reshape", {condition, c.integers_constant(shape_along(c, x, 0))});
  }
  if (c.rank_of(condition) != c.rank_of(x)) c.refuse("a condition of another rank");
  c.give(c.add("Where", {c.cast(condition, DType::kBool), x, c.tensor("y")}));
}

}  // namespace

std::vector<Row> indexing_rows() {
  return {
      {"Embedding", "data, weight, input_dim=0, output_dim=0, dtype=float32, sparse_grad=False", embedding},
      {"take", "a, indices, axis=0, mode=clip", take},
      {"pick choose_element_0index", "data, index, axis=-1, keepdims=False, mode=clip", pick},
      {"batch_take", "a, indices, mode=clip", batch_take},
      {"gather_nd", "data, indices", gather_nd},
      {"one_hot", "indices, depth, on_value=1, off_value=0, dtype=float32", one_hot},
      {"where", "condition, x, y", where},
  };
}

}  // namespace graft::mxnet
