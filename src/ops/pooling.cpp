// SPDX-License-Identifier: Apache-2.0
// Pooling over sliding windows and over whole images.
#include <algorithm>

#include "ops/samples.h"
#include "ops/window.h"

namespace graft {
namespace {

using namespace samples;

/// An input under windows: where output i and kernel position k read it.
struct Pool {
  Tensor x;
  std::vector<Window> windows;
  Shape shape, kernel;

  Indices position(const Indices& i, const Indices& k) const {
    Indices at = {i[0], i[1]};
    for (size_t s = 0; s < windows.size(); ++s) at.push_back(window_position(windows[s], i[s + 2], k[s]));
    return at;
  }
  Expr inside(const Indices& at) const { return windows_inside(windows, {at.begin() + 2, at.end()}); }
};

Pool read_pool(Definition& d) {
  Pool p;
  p.x = d.in(0);
  p.kernel = kernel_shape(d, p.x.rank() - 2);
  p.windows = read_windows(d, p.x.shape(), p.kernel, /*shrinks=*/true);
  p.shape = {p.x.size(0), p.x.size(1)};
  for (const Size& size : window_outputs(p.windows)) p.shape.push_back(size);
  return p;
}

/// The larger of two (value, position) pairs, the earlier position among equals; NaN is larger than all.
Monoid largest_with_position(DType type) {
  Monoid m;
  m.identity = {make_monoid(Intrinsic::kMax, type).identity[0], make_index(INT64_MAX)};
  m.left = {make_variable(type), make_variable()};
  m.right = {make_variable(type), make_variable()};
  const Expr &a = m.left[0], &b = m.right[0];
  Expr right = gt(b, a) || (eq(a, b) && lt(m.right[1], m.left[1]));
  if (is_float(type)) right = (right || is_nan(b)) && make_call(Intrinsic::kNot, {is_nan(a)});
  m.combine = {select(right, b, a), select(right, m.right[1], m.left[1])};
  return m;
}

/// The position of an element in its whole tensor; with storage_order 1 the spatial axes count backwards.
Expr storage_position(const Tensor& x, const Indices& at, bool column_major) {
  if (!column_major) return flat_index(x.shape(), at);
  Shape shape = x.shape();
  Indices own = at;
  std::reverse(shape.begin() + 2, shape.end());
  std::reverse(own.begin() + 2, own.end());
  return flat_index(shape, own);
}

void define_max_pool(Definition& d) {
  const Pool p = read_pool(d);
  const DType wide = compute_type(p.x.type());
  const Expr lowest = make_monoid(Intrinsic::kMax, wide).identity[0];
  const auto element = [&](const Indices& at) { return select(p.inside(at), p.x.wide(at), lowest); };
  if (!d.wants_output(1)) {
    const Tensor largest = d.reduce("largest", Intrinsic::kMax, p.shape, p.kernel,
                                    [&](const Indices& i, const Indices& k) { return element(p.position(i, k)); });
    return d.out(0, stored_as(d, "y", largest, p.x.type()));
  }
  const bool column_major = d.integer("storage_order") != 0;
  const std::vector<Tensor> both = d.reduce(
      "largest", largest_with_position(wide), p.shape, p.kernel, [&](const Indices& i, const Indices& k) {
        const Indices at = p.position(i, k);
        const Expr position = storage_position(p.x, at, column_major);
        return std::vector<Expr>{element(at), select(p.inside(at), position, make_index(INT64_MAX))};
      });
  d.out(0, stored_as(d, "y", both[0], p.x.type()));
  d.out(1, both[1]);
}

/// How many positions of output `o`'s window count along one axis.
Expr counted(const Window& w, const Expr& o, bool with_padding) {
  const Expr start = o * make_index(w.stride) - make_size(w.before);
  const Expr dilation = make_index(w.dilation), kernel = make_size(w.kernel), zero = make_index(0);
  const auto steps = [&](const Expr& length) { return -floor_div(-length, dilation); };
  const Size end = with_padding ? w.input + w.after : w.input;
  if (with_padding && !w.overhang) return kernel;
  if (!with_padding && w.before.is(0) && w.after.is(0) && !w.overhang && !w.exceeds) return kernel;
  const Expr low = with_padding || w.before.is(0) ? zero : steps(max(zero, -start));
  return max(zero, min(kernel, steps(make_size(end) - start)) - low);
}

void define_average_pool(Definition& d) {
  const Pool p = read_pool(d);
  const bool with_padding = d.integer("count_include_pad") != 0;
  const Tensor sum = d.reduce("sum", Intrinsic::kAdd, p.shape, p.kernel, [&](const Indices& i, const Indices& k) {
    const Indices at = p.position(i, k);
    return select(p.inside(at), p.x.wide(at), literal(p.x.type(), 0));
  });
  d.out(0, d.compute("y", p.x.type(), p.shape, [&](const Indices& i) {
    Expr count = make_index(1);
    for (size_t s = 0; s < p.windows.size(); ++s) count = count * counted(p.windows[s], i[s + 2], with_padding);
    return sum(i) / make_cast(sum.type(), count);
  }));
}

/// |x|^p and the p-th root of a sum of them, by the primitives that are exact for p = 1 and 2.
Expr power(const Expr& x, int64_t p) {
  if (p == 1) return abs(x);
  return p == 2 ? x * x : pow(abs(x), make_constant(x->type, static_cast<double>(p)));
}
Expr root(const Expr& x, int64_t p) {
  if (p == 1) return x;
  return p == 2 ? sqrt(x) : pow(x, make_constant(x->type, 1.0 / static_cast<double>(p)));
}

int64_t norm_order(const Definition& d) {
  const int64_t p = d.integer("p");
  if (p < 1) d.reject("its attribute 'p' should be positive");
  return p;
}

void define_lp_pool(Definition& d) {
  const Pool pool = read_pool(d);
  const int64_t p = norm_order(d);
  const Tensor sum = d.reduce("sum", Intrinsic::kAdd, pool.shape, pool.kernel, [&](const Indices& i, const Indices& k) {
    const Indices at = pool.position(i, k);
    return select(pool.inside(at), power(pool.x.wide(at), p), literal(pool.x.type(), 0));
  });
  d.out(0, map(d, "y", sum, pool.x.type(), [&](const Expr& s) { return root(s, p); }));
}

/// Folds all spatial axes, which stay with size 1.
Tensor global(Definition& d, Intrinsic combine, const Map& lift) {
  const Tensor x = d.in(0);
  if (x.rank() < 3) d.reject("its input should have at least three axes");
  AxisSet spatial(x.rank(), Size(1));
  spatial[0] = spatial[1] = 0;
  return fold_axes(d, "folded", x.shape(), spatial, {combine, [&](const Indices& i) { return lift(x.wide(i)); }});
}

Expr itself(const Expr& x) { return x; }

void define_global_average_pool(Definition& d) {
  const Tensor sum = global(d, Intrinsic::kAdd, itself);
  const Shape& shape = d.input_shape(0);
  const Size count = element_count(Shape(shape.begin() + 2, shape.end()));
  d.out(0, map(d, "y", sum, d.input_type(0), [&](const Expr& s) { return s / number(s->type, count); }));
}
void define_global_max_pool(Definition& d) {
  d.out(0, stored_as(d, "y", global(d, Intrinsic::kMax, itself), d.input_type(0)));
}
void define_global_lp_pool(Definition& d) {
  const int64_t p = norm_order(d);
  const Tensor sum = global(d, Intrinsic::kAdd, [&](const Expr& x) { return power(x, p); });
  d.out(0, map(d, "y", sum, d.input_type(0), [&](const Expr& s) { return root(s, p); }));
}

using Lists = std::initializer_list<std::pair<const std::string, Attribute>>;
std::vector<int64_t> ints(std::initializer_list<int64_t> values) { return values; }

/// The windows that all three pooling operators are tried with.
std::vector<Sample> pool_samples() {
  const auto attributes = [](Lists lists) {
    Attributes all;
    for (const auto& [name, value] : lists) all[name] = value;
    return all;
  };
  return {
      {.name = "one_axis", .inputs = {f32({2, 3, 11})}, .attributes = attributes({{"kernel_shape", ints({3})}})},
      {.name = "strides_and_pads", .inputs = {f32({1, 3, 7, 9})},
       .attributes = attributes({{"kernel_shape", ints({3, 3})}, {"strides", ints({2, 2})}, {"pads", ints({1, 1, 1,
           1})}})},
      {.name = "uneven_pads", .inputs = {f32({1, 2, 6, 5})},
       .attributes = attributes({{"kernel_shape", ints({2, 3})}, {"pads", ints({0, 1, 1, 2})}})},
      {.name = "same_padding", .inputs = {f32({1, 2, 7, 8})},
       .attributes = attributes({{"kernel_shape", ints({3, 2})}, {"strides", ints({2, 2})},
                                 {"auto_pad", std::string("SAME_UPPER")}})},
      {.name = "windows_overhang", .inputs = {f32({1, 2, 7, 8})},
       .attributes = attributes({{"kernel_shape", ints({3, 3})}, {"strides", ints({2, 3})}, {"ceil_mode",
           int64_t{1}}})},
      {.name = "larger_than_the_input_by_less_than_a_stride", .inputs = {f32({1, 2, 1, 9})},
       .attributes = attributes({{"kernel_shape", ints({3, 3})}, {"strides", ints({3, 3})}})},
      {.name = "dilations", .inputs = {f32({1, 1, 9, 9})},
       .attributes = attributes({{"kernel_shape", ints({2, 3})}, {"dilations", ints({3, 2})}})},
      {.name = "three_axes", .inputs = {f32({1, 2, 4, 5, 6})},
       .attributes = attributes({{"kernel_shape", ints({2, 3, 2})}})},
      {.name = "half_precision", .inputs = {f16({1, 3, 6, 6})},
       .attributes = attributes({{"kernel_shape", ints({3, 3})}}),
       .tolerance = 2e-3},
  };
}

std::vector<Sample> max_pool_samples() {
  std::vector<Sample> all = pool_samples();
  all.push_back(all[1]);
  all.back().name = "positions";
  all.back().outputs = 2;
  all.push_back(all.back());
  all.back().name = "positions_by_columns";
  all.back().attributes["storage_order"] = int64_t{1};
  // Many equal elements: the position is that of the first.
  std::vector<double> levels(2 * 9 * 20);
  for (size_t i = 0; i < levels.size(); ++i) levels[i] = static_cast<double>(i * i % 7 % 3);
  const SampleInput equal = values(DType::kFloat32, {1, 2, 9, 20}, levels);
  all.push_back({.name = "positions_among_equals", .inputs = {equal},
                 .attributes = {{"kernel_shape", ints({3, 17})}}, .outputs = 2});
  all.push_back({.name = "positions_among_equals_along_an_axis",
                 .inputs = {values(DType::kFloat32, {1, 9, 40}, levels)},
                 .attributes = {{"kernel_shape", ints({33})}, {"strides", ints({2})}}, .outputs = 2});
  all.push_back({.name = "bytes", .inputs = {of(DType::kInt8, {1, 1, 5, 5}, -128, 127)},
                 .attributes = {{"kernel_shape", ints({2, 2})}, {"pads", ints({1, 1, 1, 1})}}});
  return all;
}
std::vector<Sample> average_pool_samples() {
  std::vector<Sample> all = pool_samples();
  for (const int source : {1, 2, 4}) {
    all.push_back(all[source]);
    all.back().name += "_counted";
    all.back().attributes["count_include_pad"] = int64_t{1};
  }
  return all;
}
std::vector<Sample> lp_pool_samples() {
  std::vector<Sample> all = pool_samples();
  all.push_back(all[1]);
  all.back().name = "third_power";
  all.back().attributes["p"] = int64_t{3};
  return all;
}
std::vector<Sample> global_samples() {
  return {{.name = "image", .inputs = {f32({2, 3, 5, 7})}},
          {.name = "one_axis", .inputs = {f32({1, 4, 9})}},
          {.name = "half_precision", .inputs = {f16({1, 3, 6, 6})}, .tolerance = 2e-3}};
}

OpDef row(std::string_view name, int since, std::vector<AttributeSpec> attributes, void (*define)(Definition&),
          std::vector<Sample> (*samples)(), std::string_view doc) {
  return {.domain = "", .name = name, .since = since, .inputs = {"x"}, .outputs = {"y"},
          .attributes = std::move(attributes), .define = define, .samples = samples, .doc = doc};
}

std::vector<AttributeSpec> windows_and(AttributeSpec more) {
  std::vector<AttributeSpec> attributes = window_attributes(true, true);
  attributes.push_back(std::move(more));
  return attributes;
}

}  // namespace

std::vector<OpDef> pooling_ops() {
  std::vector<OpDef> ops = {
      row("MaxPool", 22, windows_and({"storage_order", int64_t{0}}), define_max_pool, max_pool_samples,
          "The largest element of each window."),
      row("AveragePool", 22, windows_and({"count_include_pad", int64_t{0}}), define_average_pool, average_pool_samples,
          "The mean of each window."),
      row("LpPool", 22, windows_and({"p", int64_t{2}}), define_lp_pool, lp_pool_samples, "The p-norm of each window."),
      row("GlobalAveragePool", 22, {}, define_global_average_pool, global_samples, "The mean of each channel."),
      row("GlobalMaxPool", 22, {}, define_global_max_pool, global_samples, "The largest element of each channel."),
      row("GlobalLpPool", 22, {{"p", int64_t{2}}}, define_global_lp_pool, global_samples,
          "The p-norm of each channel."),
  };
  ops[0].outputs = {"y", "indices?"};
  return ops;
}

}  // namespace graft
