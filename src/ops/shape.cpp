// SPDX-License-Identifier: Apache-2.0
// Operators on shapes, and those that only give a tensor another one.
#include <algorithm>
#include <numeric>

#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// A list of sizes as an i64 tensor.
Tensor sizes_tensor(Definition& d, std::string_view name, const Shape& sizes) {
  return d.compute(name, DType::kInt64, {Size(static_cast<int64_t>(sizes.size()))}, [&](const Indices& i) {
    Expr value = make_index(0);
    for (size_t k = sizes.size(); k-- > 0;) {
      const Expr size = make_size(sizes[k]);
      value = k + 1 == sizes.size() ? size : select(eq(i[0], make_index(static_cast<int64_t>(k))), size, value);
    }
    return value;
  });
}

void define_shape(Definition& d) {
  const Shape& shape = d.input_shape(0);
  const int64_t rank = static_cast<int64_t>(shape.size());
  const auto bound = [&](int64_t value) { return std::clamp<int64_t>(value < 0 ? value + rank : value, 0, rank); };
  const int64_t begin = bound(d.integer("start"));
  const int64_t end = std::max(begin, d.has("end") ? bound(d.integer("end")) : rank);
  d.out(0, sizes_tensor(d, "shape", Shape(shape.begin() + begin, shape.begin() + end)));
}

void define_size(Definition& d) {
  const Size count = element_count(d.input_shape(0));
  d.out(0, d.compute("size", DType::kInt64, {}, [&](const Indices&) { return make_size(count); }));
}

/// The target of a Reshape whose entries are known: 0 copies the input's size, -1 takes what is left.
Shape known_target(Definition& d, const Shape& from, Shape target, bool allow_zero) {
  int inferred = -1;
  Size others = 1;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i].is(-1)) {
      if (inferred >= 0) d.reject("two entries of its shape are -1");
      inferred = static_cast<int>(i);
      continue;
    }
    if (target[i].is_constant() && target[i].constant() < 0) d.reject("an entry of its shape is negative");
    if (target[i].is(0) && !allow_zero) {
      if (i >= from.size()) d.reject("an entry of its shape is 0 where the input has no axis");
      target[i] = from[i];
    }
    others = others * target[i];
  }
  if (inferred >= 0) {
    if (others.is(0)) d.reject("-1 in its shape has no value beside a size of 0");
    target[inferred] = floor_div(element_count(from), others);
  }
  return target;
}

/// The same by arithmetic, where only the run knows the entries. Each max makes one atom of a sum, so that products of
/// sizes stay short.
Shape target_of_the_run(Definition& d, const Shape& from, Shape target, bool allow_zero) {
  std::vector<Size> inferred;
  Size others = 1, inferred_count = 0;
  for (size_t i = 0; i < target.size(); ++i) {
    const Size entry = target[i];
    d.require_at_least(entry, -1, "an entry of its shape is negative");
    inferred.push_back(max(0, Size(0) - entry));
    inferred_count = inferred_count + inferred[i];
    target[i] = max(0, entry);
    if (!allow_zero && i < from.size()) target[i] = target[i] + (Size(1) - min(1, entry * entry)) * from[i];
    others = others * max(0, target[i] + inferred[i]);
  }
  d.require_at_least(1, inferred_count, "two entries of its shape are -1");
  const Size rest = floor_div(element_count(from), max(others, 1));
  for (size_t i = 0; i < target.size(); ++i) target[i] = max(0, target[i] + inferred[i] * rest);
  return target;
}

void define_reshape(Definition& d) {
  const Tensor x = d.in(0);
  const bool allow_zero = d.integer("allowzero") != 0;
  const Shape given = d.sizes_of(1);
  const Shape shape =
      d.knows(1) ? known_target(d, x.shape(), given, allow_zero) : target_of_the_run(d, x.shape(), given, allow_zero);
  d.require_equal(element_count(shape), element_count(x.shape()), "the new shape has another number of elements");
  d.out(0, reshape(d, "reshaped", x, shape));
}

void define_flatten(Definition& d) {
  const Tensor x = d.in(0);
  const int64_t given = d.integer("axis");
  const int axis = given == x.rank() ? x.rank() : d.axis(given, x.rank());
  const auto cut = x.shape().begin() + axis;
  d.out(0, reshape(d, "flat", x,
                   {element_count(Shape(x.shape().begin(), cut)), element_count(Shape(cut, x.shape().end()))}));
}

void define_squeeze(Definition& d) {
  const Tensor x = d.in(0);
  AxisSet set(x.rank(), Size(0));
  int members = 0;
  if (d.has_input(1)) {
    const std::vector<Size> axes = d.sizes_of(1);
    set = axis_set(d, axes, x.rank());
    members = static_cast<int>(axes.size());
  } else {
    for (int i = 0; i < x.rank(); ++i) {
      set[i] = x.size(i).is(1);
      if (x.size(i).is_constant()) continue;
      const Size other = x.size(i) - Size(1);  // ranks do not vary, so that such an axis stays
      d.require_at_least(other * other, 1, "without axes, a size that varies may not be 1: say which axes go");
    }
  }
  for (int i = 0; i < x.rank(); ++i) {
    d.require_equal(set[i] * (x.size(i) - Size(1)), 0, "a squeezed axis has another size than 1");
  }
  const Shape shape = without(x.shape(), set, false, members);
  d.out(0, d.compute("squeezed", x.type(), shape, [&](const Indices& i) {
    Indices at;
    Size place = 0;
    for (int axis = 0; axis < x.rank(); ++axis) {
      Expr index = make_index(0);
      for (size_t p = 0; p < i.size() && static_cast<int>(p) <= axis; ++p) {
        const Size here = (Size(1) - set[axis]) * is_equal(place, static_cast<int64_t>(p));
        if (!here.is(0)) index = index + make_size(here) * i[p];
      }
      at.push_back(index);
      place = place + Size(1) - set[axis];
    }
    return x(at);
  }));
}

void define_unsqueeze(Definition& d) {
  const Tensor x = d.in(0);
  const std::vector<Size> axes = d.sizes_of(1);
  const int added = static_cast<int>(axes.size()), rank = x.rank() + added;
  const AxisSet set = axis_set(d, axes, rank);
  const Size members = std::accumulate(set.begin(), set.end(), Size(0));
  d.require_equal(members, static_cast<int64_t>(axes.size()), "an axis is given twice");
  // Both lie in [0, rank], so that their difference is 0 where its remainder is.
  const auto is_place = [&](const Size& a, int p) { return Size(1) - min(Size(1), mod(a - Size(p), rank + 1)); };
  Shape shape;
  Size place = 0;
  for (int i = 0; i < rank; ++i) {
    // 1 at a new axis, else the size of the input's axis at `place`: one term of the sum is not 0.
    Size size = set[i];
    for (int p = std::max(0, i - added); p < x.rank() && p <= i; ++p) {
      size = size + (Size(1) - set[i]) * is_place(place, p) * x.size(p);
    }
    // One atom for each axis keeps the products of sizes short.
    shape.push_back(at_least_zero(size));
    place = place + Size(1) - set[i];
  }
  d.out(0, d.compute("unsqueezed", x.type(), shape, [&](const Indices& i) {
    Indices at(x.rank(), make_index(0));
    Size before = 0;
    for (int axis = 0; axis < rank; ++axis) {
      for (int p = std::max(0, axis - added); p < x.rank() && p <= axis; ++p) {
        const Size here = (Size(1) - set[axis]) * is_place(before, p);
        if (!here.is(0)) at[p] = at[p] + make_size(here) * i[axis];
      }
      before = before + Size(1) - set[axis];
    }
    return x(at);
  }));
}

/// Broadcasts to a shape of which entries may be 1, and of which the run may know only the number of entries.
void define_expand(Definition& d) {
  const Tensor x = d.in(0);
  Shape target = d.sizes_of(1);
  if (d.knows(1)) {
    const Shape shape = d.broadcast(x.shape(), target);
    return d.out(0, d.compute("expanded", x.type(), shape, [&](const Indices& i) { return d.at(x, i, false); }));
  }
  while (static_cast<int>(target.size()) < x.rank()) target.insert(target.begin(), Size(1));
  const int offset = static_cast<int>(target.size()) - x.rank();
  for (int axis = 0; axis < x.rank(); ++axis) {
    const Size own = x.size(axis), asked = target[offset + axis];
    if (own.is(1)) continue;
    d.require_equal((asked - Size(1)) * (own - Size(1)) * (asked - own), 0, "the shapes do not broadcast");
    target[offset + axis] = own.is_constant() ? own : asked + is_equal(asked, 1) * (own - asked);
  }
  d.out(0, d.compute("expanded", x.type(), target, [&](const Indices& i) {
    Indices at;
    for (int axis = 0; axis < x.rank(); ++axis) {
      const Size own = x.size(axis);
      const Expr index = own.is(1) ? make_index(0) : i[offset + axis];
      at.push_back(own.is_constant() ? index : min(index, make_size(own - Size(1))));
    }
    return x(at);
  }));
}

void define_constant_of_shape(Definition& d) {
  const Shape shape = d.sizes_of(0);
  for (const Size& size : shape) d.require_at_least(size, 0, "an entry of its shape is negative");
  const TensorData* value = d.tensor("value");
  if (value && value->element_count() != 1) d.reject("its attribute 'value' should have one element");
  const DType type = value ? value->type() : DType::kFloat32;
  d.out(0, d.compute("filled", type, shape, [&](const Indices&) {
    if (!value) return make_constant(DType::kFloat32, 0);
    return is_float(type) ? make_cast(type, make_constant(DType::kFloat64, value->read_double(0)))
                          : make_integer(type, value->read_integer(0));
  }));
}

/// How many steps a Range of floats takes: known only when its bounds are.
Size float_steps(Definition& d) {
  for (int i = 0; i < 3; ++i) {
    if (!d.constant(i)) d.unsupported("a Range of floats needs bounds known when compiling");
  }
  const double start = d.constant(0)->read_double(0), limit = d.constant(1)->read_double(0);
  const double delta = d.constant(2)->read_double(0);
  if (!(delta != 0)) d.reject("its step is zero");
  const double steps = (limit - start) / delta;
  if (!(steps < 9e15)) d.reject("its bounds are not finite");
  return std::max<int64_t>(0, static_cast<int64_t>(steps) + (steps > static_cast<double>(static_cast<int64_t>(steps))));
}

void define_range(Definition& d) {
  const DType type = d.input_type(0);
  Size steps;
  if (is_float(type)) {
    steps = float_steps(d);
  } else {
    const Size start = d.size_of(0), limit = d.size_of(1), delta = d.size_of(2);
    if (delta.is(0)) d.reject("its step is zero");
    steps = at_least_zero(signed_ceil_div(limit - start, delta));
  }
  const Tensor start = d.in(0), delta = d.in(2);
  d.out(0, d.compute("range", type, {steps}, [&](const Indices& i) {
    const Expr first = d.at(start, {make_index(0)});
    return first + make_cast(first->type, i[0]) * d.at(delta, {make_index(0)});
  }));
}

void define_tile(Definition& d) {
  const Tensor x = d.in(0);
  const std::vector<Size> repeats = d.sizes_of(1, x.rank());
  if (static_cast<int>(repeats.size()) != x.rank()) d.reject("its repeats should be one per axis");
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    d.require_at_least(repeats[i], 0, "a repeat is negative");
    shape.push_back(x.size(i) * repeats[i]);
  }
  d.out(0, d.compute("tiled", x.type(), shape, [&](const Indices& i) {
    Indices at;
    for (int axis = 0; axis < x.rank(); ++axis) {
      at.push_back(repeats[axis].is(1) ? i[axis] : mod(i[axis], make_size(x.size(axis))));
    }
    return x(at);
  }));
}

std::vector<Sample> shape_samples() {
  return {
      {.name = "all_axes", .inputs = {f32({3, 4, 5})}},
      {.name = "some_axes", .inputs = {f32({3, 4, 5})}, .attributes = {{"start", int64_t{-2}}, {"end", int64_t{-1}}}},
      {.name = "bounds_outside", .inputs = {f32({3, 4})}, .attributes = {{"start", int64_t{-9}}, {"end", int64_t{9}}}},
      {.name = "scalar", .inputs = {f32({})}}};
}
std::vector<Sample> size_samples() {
  return {{.name = "three_axes", .inputs = {f32({3, 4, 5})}},
          {.name = "scalar", .inputs = {i64({})}},
          {.name = "no_elements", .inputs = {f32({3, 0})}}};
}
std::vector<Sample> reshape_samples() {
  return {{.name = "axes_merge", .inputs = {f32({3, 4, 5}), list({12, 5})}},
          {.name = "axes_split", .inputs = {f32({12, 5}), list({3, 4, 5})}},
          {.name = "axes_regroup", .inputs = {f32({6, 5}), list({5, 3, 2})}},
          {.name = "zero_copies_and_minus_one_infers", .inputs = {f32({2, 3, 8}), list({0, -1, 4})}},
          {.name = "shape_of_the_run", .inputs = {f32({2, 3, 8}), run_list({0, -1, 4})}},
          {.name = "to_scalar", .inputs = {f32({1, 1}), list({})}},
          {.name = "from_scalar", .inputs = {f32({}), list({1, 1})}},
          {.name = "no_elements", .inputs = {f32({0, 3}), list({3, 0})}, .attributes = {{"allowzero", int64_t{1}}}}};
}
std::vector<Sample> flatten_samples() {
  return {{.name = "default_axis", .inputs = {f32({2, 3, 4})}},
          {.name = "axis_zero", .inputs = {f32({2, 3, 4})}, .attributes = {{"axis", int64_t{0}}}},
          {.name = "last_axis_from_the_end", .inputs = {f32({2, 3, 4})}, .attributes = {{"axis", int64_t{-1}}}},
          {.name = "axis_is_the_rank", .inputs = {f32({2, 3})}, .attributes = {{"axis", int64_t{2}}}}};
}
std::vector<Sample> squeeze_samples() {
  return {{.name = "one_axis", .inputs = {f32({1, 3, 1, 5}), list({0})}},
          {.name = "axis_from_the_end", .inputs = {f32({3, 1, 5, 1}), list({-1, 1})}},
          {.name = "all_axes_of_size_one", .inputs = {f32({1, 3, 1, 5})}},
          {.name = "axes_of_the_run", .inputs = {f32({1, 3, 1, 5}), run_list({2})}}};
}
std::vector<Sample> unsqueeze_samples() {
  return {{.name = "first_axis", .inputs = {f32({3, 5}), list({0})}},
          {.name = "unordered_axes", .inputs = {f32({3, 5}), list({3, 0, -4})}},
          {.name = "axes_of_the_run", .inputs = {f32({3, 5}), run_list({-1, 1})}},
          {.name = "scalar", .inputs = {f32({}), list({0})}}};
}
std::vector<Sample> expand_samples() {
  return {{.name = "axes_grow", .inputs = {f32({3, 1}), list({2, 1, 6})}},
          {.name = "target_has_ones", .inputs = {f32({3, 5}), list({1, 1})}},
          {.name = "shape_of_the_run", .inputs = {f32({3, 1}), run_list({2, 1, 6})}},
          {.name = "fewer_axes_of_the_run", .inputs = {i64({2, 3, 1}), run_list({4})}},
          {.name = "scalar", .inputs = {f16({}), list({2, 2})}}};
}
std::vector<Sample> constant_of_shape_samples() {
  const auto value = [](DType type, double v) {
    return Attributes{{"value", TensorData::from_values<double>(type, {1}, {v})}};
  };
  return {{.name = "zeros", .inputs = {list({2, 3})}},
          {.name = "integers", .inputs = {list({3})}, .attributes = value(DType::kInt64, 7)},
          {.name = "half_precision_shape_of_the_run",
           .inputs = {run_list({2, 3})},
           .attributes = value(DType::kFloat16, 1.5)},
          {.name = "scalar", .inputs = {list({})}, .attributes = value(DType::kBool, 1)}};
}
std::vector<Sample> range_samples() {
  const auto three = [](DType type, double a, double b, double c) {
    return std::vector<SampleInput>{scalar(type, a), scalar(type, b), scalar(type, c)};
  };
  std::vector<Sample> all = {{.name = "integers_up", .inputs = three(DType::kInt64, 2, 11, 4)},
                             {.name = "integers_down", .inputs = three(DType::kInt32, 9, -3, -5)},
                             {.name = "floats", .inputs = three(DType::kFloat32, 1, 2.6, 0.5)},
                             {.name = "empty", .inputs = three(DType::kInt64, 5, 5, 1)},
                             {.name = "bounds_of_the_run", .inputs = three(DType::kInt64, 10, 1, -3)}};
  for (SampleInput& input : all.back().inputs) input.constant = false;
  return all;
}
std::vector<Sample> tile_samples() {
  return {{.name = "two_axes", .inputs = {f32({2, 3}), list({2, 3})}},
          {.name = "once_is_a_copy", .inputs = {i64({2, 3}), list({1, 1})}},
          {.name = "repeats_of_the_run", .inputs = {f32({2, 3, 1}), run_list({1, 2, 5})}},
          {.name = "no_times", .inputs = {f32({2, 3}), list({0, 1})}}};
}

/// The input, in runs in which a number is 1.
void define_require(Definition& d) {
  const Tensor x = d.in(0);
  d.require_equal(element_count(d.input_shape(1)), 1, "its condition has not one element");
  d.require_at_least(d.size_of(1), 1, d.text("message"));
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) { return x(i); }));
}

std::vector<Sample> require_samples() {
  return {{.name = "known", .inputs = {f32({2, 3}), list({1})}},
          {.name = "of_the_run", .inputs = {i64({2, 3}), run_list({1})}}};
}

/// A row whose output is its first input under another shape.
OpDef reshaping(OpDef op) {
  op.keeps_order = true;
  return op;
}

}  // namespace

std::vector<OpDef> shape_ops() {
  return {
      row("Shape", 25, {"data"}, {{"start", int64_t{0}}, {"end", {}, true}}, define_shape, shape_samples,
          "The sizes of the axes."),
      row("Size", 25, {"data"}, {}, define_size, size_samples, "The number of elements."),
      reshaping(row("Reshape", 25, {"data", "shape"}, {{"allowzero", int64_t{0}}}, define_reshape, reshape_samples,
                    "The same elements in the same order under another shape.")),
      reshaping(row("Flatten", 25, {"input"}, {{"axis", int64_t{1}}}, define_flatten, flatten_samples,
                    "The axes before and from an axis on merged into two.")),
      reshaping(row("Squeeze", 25, {"data", "axes?"}, {}, define_squeeze, squeeze_samples, "Axes of size 1 removed.")),
      reshaping(
          row("Unsqueeze", 25, {"data", "axes"}, {}, define_unsqueeze, unsqueeze_samples, "Axes of size 1 put in.")),
      row("Expand", 13, {"input", "shape"}, {}, define_expand, expand_samples, "The input broadcast to a shape."),
      row("ConstantOfShape", 25, {"input"}, {{"value", {}, true}}, define_constant_of_shape, constant_of_shape_samples,
          "One value everywhere."),
      row("Range", 27, {"start", "limit", "delta"}, {}, define_range, range_samples,
          "The numbers from start to before limit in steps of delta."),
      row("Tile", 13, {"input", "repeats"}, {}, define_tile, tile_samples, "The input repeated along each axis."),
      reshaping({.domain = "graft", .name = "Require", .since = 1, .inputs = {"x", "holds"}, .outputs = {"y"},
                 .attributes = {{"message", std::string("its condition does not hold")}}, .define = define_require,
                 .samples = require_samples, .doc = "The input, in runs in which a number is 1; others are refused."}),
  };
}

}  // namespace graft
