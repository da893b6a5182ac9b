// SPDX-License-Identifier: Apache-2.0
// Random numbers of symbols that are compiled whole, other ones in each run. Inside MXNet it draws them itself, by
// mx.random.seed (src/host/mxnet).
#include <algorithm>

#include "base/dtype.h"
#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;
using Bounds = Attributes (*)(const Conversion& c);

Attributes uniform(const Conversion& c) { return {{"low", real(c, "low")}, {"high", real(c, "high")}}; }
Attributes normal(const Conversion& c) { return {{"mean", real(c, "loc")}, {"scale", real(c, "scale")}}; }

/// Of a shape, f32 where no type is named.
std::function<void(Conversion&)> drawn(std::string_view op, Bounds bounds) {
  return [=](Conversion& c) {
    const std::vector<int64_t> shape = integers(c, "shape");
    const bool open = std::any_of(shape.begin(), shape.end(), [](int64_t each) { return each < 0; });
    if (open || shape.empty()) c.refuse("a shape that its uses have to tell");
    Attributes attributes = bounds(c);
    attributes["shape"] = shape;
    attributes["dtype"] = int64_t{onnx_code(given(c, "dtype") ? type(c, "dtype") : DType::kFloat32)};
    c.give(c.add(op, {}, std::move(attributes)));
  };
}

std::function<void(Conversion&)> drawn_like(std::string_view op, Bounds bounds) {
  return [=](Conversion& c) { c.give(c.add(op, {c.tensor("data")}, bounds(c))); };
}

/// Classes by the probabilities along the last axis: so many from each row as the shape has elements.
void classes(Conversion& c) {
  if (flag(c, "get_prob")) c.refuse("the logarithms of what was drawn, which training reads");
  const ValueId data = c.tensor("data");
  const int rank = c.rank_of(data);
  if (rank < 1) c.refuse("probabilities without an axis");
  int64_t count = 1;
  std::vector<int64_t> sizes = integers(c, "shape");
  if (sizes.empty() && rank == 1) sizes = {1};  // as MXNet's shapes are, which knows none without axes
  for (const int64_t size : sizes) count = c.product(count, size);
  const ValueId shape = c.add("Shape", {data});
  const ValueId width = c.add("Gather", {shape, c.integers_constant({rank - 1})});
  const ValueId rows = c.add("Reshape", {data, c.add("Concat", {c.integers_constant({-1}), width},
                                                     {{"axis", int64_t{0}}})}, {{"allowzero", int64_t{1}}});
  const ValueId made = c.add("Multinomial", {c.add("Log", {rows})}, {{"sample_size", count}});
  std::vector<ValueId> parts;
  if (rank > 1) parts.push_back(c.add("Slice", {shape, c.integers_constant({0}), c.integers_constant({rank - 1})}));
  parts.push_back(c.integers_constant(sizes));
  const ValueId wanted = parts.size() == 1 ? parts[0] : c.add("Concat", parts, {{"axis", int64_t{0}}});
  c.give(c.cast(c.add("Reshape", {made, wanted}), type(c, "dtype")));
}

}  // namespace

std::vector<Row> random_rows() {
  constexpr std::string_view kUniform = "low=0, high=1, shape=(), ctx=, dtype=None";
  constexpr std::string_view kNormal = "loc=0, scale=1, shape=(), ctx=, dtype=None";
  return {
      {"_random_uniform random_uniform uniform", kUniform, drawn("RandomUniform", uniform)},
      {"_random_normal random_normal normal", kNormal, drawn("RandomNormal", normal)},
      {"_random_uniform_like", "data, low=0, high=1", drawn_like("RandomUniformLike", uniform)},
      {"_random_normal_like", "data, loc=0, scale=1", drawn_like("RandomNormalLike", normal)},
      {"_sample_multinomial sample_multinomial", "data, shape=(), get_prob=False, dtype=int32", classes},
  };
}

}  // namespace graft::mxnet
