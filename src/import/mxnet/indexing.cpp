// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

constexpr int64_t kDeepestOneHot = int64_t{1} << 24;  // the depth is a constant of so many elements

/// Rows of a table by indices that may be floats; those outside count as the nearest row.
ValueId gather_clipped(Conversion& c, ValueId table, ValueId indices, int64_t axis) {
  const auto size = c.size_of(table, axis).as_constant();
  if (!size) c.refuse("indices into an axis whose size is known only while running");
  const auto bound = [&](int64_t value) {
    return c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {value}));
  };
  const ValueId inside = c.add("Clip", {c.cast(indices, DType::kInt64), bound(0), bound(*size - 1)});
  return c.add("Gather", {table, inside}, {{"axis", axis}});
}

void embedding(Conversion& c) { c.give(gather_clipped(c, c.tensor("weight"), c.tensor("data"), 0)); }

void take(Conversion& c) {
  const ValueId table = c.tensor("a");
  if (word(c, "mode") != "clip") c.refuse("indices that are not to be clipped");
  c.give(gather_clipped(c, table, c.tensor("indices"), c.axis(integer(c, "axis"), c.rank_of(table))));
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
  const ValueId condition = c.tensor("condition"), x = c.tensor("x");
  if (c.rank_of(condition) != c.rank_of(x)) c.refuse("a condition for whole rows");
  c.give(c.add("Where", {c.cast(condition, DType::kBool), x, c.tensor("y")}));
}

}  // namespace

std::vector<Row> indexing_rows() {
  return {
      {"Embedding", "data, weight, input_dim=0, output_dim=0, dtype=float32, sparse_grad=False", embedding},
      {"take", "a, indices, axis=0, mode=clip", take},
      {"one_hot", "indices, depth, on_value=1, off_value=0, dtype=float32", one_hot},
      {"where", "condition, x, y", where},
  };
}

}  // namespace graft::mxnet
