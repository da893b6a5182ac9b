// SPDX-License-Identifier: Apache-2.0
// Sorting and selecting: indices are floats in MXNet unless `dtype` says otherwise.
#include <fmt/format.h>

#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

/// {values, indices} of the `count` first of an axis in order; all of them for 0.
std::vector<ValueId> ordered(Conversion& c, int64_t count) {
  const ValueId data = c.tensor("data");
  if (!given(c, "axis")) c.refuse("an order of all elements");
  const int64_t axis = c.axis(integer(c, "axis"), c.rank_of(data));
  const auto size = c.size_of(data, axis).as_constant();
  if (!size) c.refuse("an axis whose size is known only while running");
  if (count < 1) count = *size;
  if (count > *size) c.refuse(fmt::format("{} of {} elements", count, *size));
  return c.add_several("TopK", {data, c.integers_constant({count})},
                       {{"axis", axis}, {"largest", int64_t{!flag(c, "is_ascend")}}, {"sorted", int64_t{1}}}, 2);
}

void top_k(Conversion& c) {
  const std::string kind = word(c, "ret_typ");
  if (kind != "value" && kind != "indices" && kind != "both") c.refuse(fmt::format("the result '{}'", kind));
  std::vector<ValueId> made = ordered(c, integer(c, "k"));
  made[1] = c.cast(made[1], type(c, "dtype"));
  if (kind == "both") return c.give(made);
  c.give(made[kind == "value" ? 0 : 1]);
}

void sort(Conversion& c) { c.give(ordered(c, 0)[0]); }
void argsort(Conversion& c) { c.give(c.cast(ordered(c, 0)[1], type(c, "dtype"))); }

}  // namespace

std::vector<Row> ordering_rows() {
  return {
      {"topk", "data, axis=-1, k=1, ret_typ=indices, is_ascend=False, dtype=float32", top_k},
      {"sort", "data, axis=-1, is_ascend=True", sort},
      {"argsort", "data, axis=-1, is_ascend=True, dtype=float32", argsort},
  };
}

}  // namespace graft::mxnet
