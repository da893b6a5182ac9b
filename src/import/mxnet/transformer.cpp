// SPDX-License-Identifier: Apache-2.0
// Attention as GluonNLP spells it: queries, keys and values of a head lie side by side in (length, batch, heads * parts
// * size).
#include <cmath>

#include <fmt/format.h>

#include "import/mxnet/attributes.h"
#include "import/mxnet/positions.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

/// One of the parts that lie side by side, as (batch, heads, length, size), and its size.
struct Part {
  ValueId value;
  int64_t size;
};

Part part(Conversion& c, std::string_view name, int64_t index, int64_t parts) {
  const ValueId packed = c.tensor(name);
  const int64_t heads = integer(c, "heads");
  if (c.rank_of(packed) != 3) c.refuse(fmt::format("{} that are no (length, batch, channels)", name));
  const auto channels = c.size_of(packed, 2).as_constant();
  if (!channels || heads < 1 || *channels % c.product(heads, parts) != 0) {
    c.refuse(fmt::format("{} that {} heads do not divide", name, heads));
  }
  const int64_t size = *channels / (heads * parts);
  ValueId value = c.add("Reshape", {packed, c.integers_constant({0, 0, heads, parts * size})});
  if (parts > 1) {
    value = c.add("Slice", {value, c.integers_constant({index * size}), c.integers_constant({(index + 1) * size}),
                            c.integers_constant({3})});
  }
  return {c.add("Transpose", {value}, {{"perm", std::vector<int64_t>{1, 2, 0, 3}}}), size};
}

/// Some axes' sizes of a value, as a tensor.
ValueId sizes(Conversion& c, ValueId value, int64_t first, int64_t behind) {
  return c.add("Shape", {value}, {{"start", first}, {"end", behind}});
}

/// queries keys^T / sqrt(size), as (batch * heads, length, length).
void scores(Conversion& c, const Part& queries, const Part& keys) {
  const double root = std::sqrt(static_cast<double>(queries.size));
  const ValueId scaled = c.add("Div", {queries.value, c.real_constant(root, c.type_of(queries.value))});
  const ValueId turned = c.add("Transpose", {keys.value}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  const ValueId product = c.add("MatMul", {scaled, turned});
  const ValueId shape = c.add("Concat", {c.integers_constant({-1}), sizes(c, product, 2, 4)}, {{"axis", int64_t{0}}});
  c.give(c.add("Reshape", {product, shape}));
}

/// weights values, as (length, batch, heads * size).
void weighted(Conversion& c, const Part& values) {
  const ValueId weights = c.tensor("attention");
  const ValueId shape =
      c.add("Concat", {sizes(c, values.value, 0, 2), sizes(c, weights, 1, 3)}, {{"axis", int64_t{0}}});
  const ValueId product = c.add("MatMul", {c.add("Reshape", {weights, shape}), values.value});
  const ValueId turned = c.add("Transpose", {product}, {{"perm", std::vector<int64_t>{2, 0, 1, 3}}});
  c.give(c.add("Reshape", {turned, c.integers_constant({0, 0, integer(c, "heads") * values.size})}));
}

void self_scores(Conversion& c) {
  scores(c, part(c, "queries_keys_values", 0, 3), part(c, "queries_keys_values", 1, 3));
}
void self_values(Conversion& c) { weighted(c, part(c, "queries_keys_values", 2, 3)); }
void cross_scores(Conversion& c) { scores(c, part(c, "queries", 0, 1), part(c, "keys_values", 0, 2)); }
void cross_values(Conversion& c) { weighted(c, part(c, "keys_values", 1, 2)); }

/// start, start + step, ... as long as an axis, or as many as there are elements.
void arange_like(Conversion& c) {
  const ValueId data = c.tensor("data");
  if (integer(c, "repeat") != 1) c.refuse("repetitions");
  const DType wanted = c.type_of(data);
  const bool one_axis = given(c, "axis");
  ValueId count = c.add("Size", {data});
  if (one_axis) {
    const int64_t axis = c.axis(integer(c, "axis"), c.rank_of(data));
    count = c.add("Squeeze", {sizes(c, data, axis, axis + 1), c.integers_constant({0})});
  }
  ValueId range = c.cast(count_up_to(c, count), wanted);
  range = c.add("Mul", {range, c.real_constant(real(c, "step"), wanted)});
  range = c.add("Add", {range, c.real_constant(real(c, "start"), wanted)});
  c.give(one_axis ? range : c.add("Reshape", {range, c.add("Shape", {data})}));
}

}  // namespace

std::vector<Row> transformer_rows() {
  return {
      {"_contrib_interleaved_matmul_selfatt_qk", "queries_keys_values, heads", self_scores},
      {"_contrib_interleaved_matmul_selfatt_valatt", "queries_keys_values, attention, heads", self_values},
      {"_contrib_interleaved_matmul_encdec_qk", "queries, keys_values, heads", cross_scores},
      {"_contrib_interleaved_matmul_encdec_valatt", "keys_values, attention, heads", cross_values},
      {"_contrib_arange_like _npx_arange_like", "data, start=0, step=1, repeat=1, ctx=, axis=None", arange_like},
  };
}

}  // namespace graft::mxnet
