// SPDX-License-Identifier: Apache-2.0
// Operators that move elements by index arithmetic: Transpose, Slice, Concat, Split, Pad, Trilu, depth and space.
#include <algorithm>

#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

void define_transpose(Definition& d) {
  const Tensor x = d.in(0);
  std::vector<int> permutation;
  for (int i = x.rank(); i-- > 0;) permutation.push_back(i);
  if (d.has("perm")) {
    const std::vector<int64_t> given = d.integers("perm");
    if (static_cast<int>(given.size()) != x.rank()) d.reject("its attribute 'perm' should name each axis");
    std::vector<bool> seen(x.rank(), false);
    for (int i = 0; i < x.rank(); ++i) {
      permutation[i] = d.axis(given[i], x.rank());
      if (seen[permutation[i]]) d.reject("its attribute 'perm' names an axis twice");
      seen[permutation[i]] = true;
    }
  }
  d.out(0, transpose(d, "transposed", x, permutation));
}

/// One axis of a Slice: the first position, the step, and how many are taken.
struct Cut {
  Size start = 0, step = 1, count;
};

/// numpy's rule in arithmetic: negative bounds count from the end, then all are clamped; `backward` is 1 for a
/// negative step, whose positions run from `size` - 1 to 0.
Cut make_cut(const Size& size, Size start, Size end, const Size& step) {
  const Size backward = is_negative(step);
  const Size low = Size(0) - backward, high = size - backward;
  const auto bound = [&](const Size& value) -> Size {
    if (value.is_constant() && backward.is_constant() && value.constant() >= INT32_MAX) return high;
    if (value.is_constant() && value.constant() <= INT32_MIN) return low;
    const Size placed = value.is_non_negative() ? value : value + is_negative(value) * size;
    if (placed.is(0) && backward.is(0)) return 0;
    return max(low, min(placed, high));
  };
  start = bound(start);
  end = bound(end);
  const Size span = end - start;
  return {start, step, at_least_zero(step.is(1) ? span : signed_ceil_div(span, step))};
}

/// The cut of one axis: entry `k` of a Slice's lists applies where `axes[k]` names the axis.
Cut cut_of_axis(Definition& d, int axis, const std::vector<Size>& starts, const std::vector<Size>& ends,
                const std::vector<Size>& steps, const std::vector<Size>& axes) {
  const Size size = d.input_shape(0)[axis];
  const int rank = static_cast<int>(d.input_shape(0).size());
  Size start = 0, end = size, step = 1;
  bool touched = false;
  for (size_t k = 0; k < axes.size(); ++k) {
    if (steps[k].is(0)) d.reject("a step is zero");
    const Size hit = names_axis(d, axes[k], axis, rank);
    if (hit.is(0)) continue;
    touched = true;
    const auto choose = [&](const Size& now, const Size& then) { return hit.is(1) ? now : then + hit * (now - then); };
    start = choose(starts[k], start);
    end = choose(ends[k], end);
    step = choose(steps[k], step);
  }
  return touched ? make_cut(size, start, end, step) : Cut{.start = 0, .step = 1, .count = size};
}

void define_slice(Definition& d) {
  const Tensor x = d.in(0);
  const std::vector<Size> starts = d.sizes_of(1), ends = d.sizes_of(2);
  std::vector<Size> axes, steps(starts.size(), Size(1));
  for (size_t k = 0; k < starts.size(); ++k) axes.push_back(static_cast<int64_t>(k));
  if (d.has_input(3)) axes = d.sizes_of(3);
  if (d.has_input(4)) steps = d.sizes_of(4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    d.reject("its starts, ends, axes and steps differ in number");
  }
  std::vector<Cut> cuts;
  Shape shape;
  for (int axis = 0; axis < x.rank(); ++axis) {
    cuts.push_back(cut_of_axis(d, axis, starts, ends, steps, axes));
    shape.push_back(cuts.back().count);
  }
  d.out(0, d.compute("slice", x.type(), shape, [&](const Indices& i) {
    Indices at;
    for (int axis = 0; axis < x.rank(); ++axis) {
      at.push_back(i[axis] * make_size(cuts[axis].step) + make_size(cuts[axis].start));
    }
    return x(at);
  }));
}

/// Where the parts of a concatenation end along its axis.
struct Parts {
  std::vector<Tensor> tensors;
  std::vector<Size> ends;
  int axis = 0;

  /// The element at `i`, of one of the parts [first, last): halves are chosen from until one part is left.
  Expr element(const Indices& i, size_t first, size_t last) const {
    if (last - first > 1) {
      const size_t middle = (first + last) / 2;
      return select(lt(i[axis], make_size(ends[middle - 1])), element(i, first, middle), element(i, middle, last));
    }
    Indices at = i;
    if (first > 0) at[axis] = i[axis] - make_size(ends[first - 1]);
    return tensors[first](at);
  }
};

/// The parts one behind the other along an axis; very many are joined in groups first, since a kernel takes so many
/// tensors at the most.
Tensor join(Definition& d, std::vector<Tensor> parts, Shape shape, int axis) {
  constexpr size_t kMost = 2 * kMostOperands;
  while (parts.size() > kMost) {
    std::vector<Tensor> groups;
    for (size_t first = 0; first < parts.size(); first += kMost) {
      const size_t end = std::min(parts.size(), first + kMost);
      const auto begin = parts.begin() + static_cast<std::ptrdiff_t>(first);
      groups.push_back(join(d, {begin, begin + static_cast<std::ptrdiff_t>(end - first)}, shape, axis));
    }
    parts = std::move(groups);
  }
  Parts all{std::move(parts), {}, axis};
  Size total = 0;
  for (const Tensor& part : all.tensors) all.ends.push_back(total = total + part.size(axis));
  shape[axis] = total;
  return d.compute("joined", all.tensors[0].type(), shape,
                   [&](const Indices& i) { return all.element(i, 0, all.tensors.size()); });
}

void define_concat(Definition& d) {
  const int count = d.input_count(), rank = d.in(0).rank();
  const int axis = d.axis(d.integer("axis"), rank);
  Shape shape = d.in(0).shape();
  std::vector<Tensor> parts;
  for (int k = 0; k < count; ++k) {
    const Tensor x = d.in(k);
    parts.push_back(x);
    if (x.rank() != rank || x.type() != d.in(0).type()) d.reject("its inputs differ in rank or type");
    for (int other = 0; other < rank; ++other) {
      if (other != axis) d.require_equal(x.size(other), shape[other], "its inputs differ in another axis");
      if (other != axis && x.size(other).is_constant()) shape[other] = x.size(other);
    }
  }
  d.out(0, join(d, std::move(parts), shape, axis));
}

/// The sizes of a Split's parts, from its input, or equal ones with a smaller last one.
std::vector<Size> split_sizes(Definition& d, const Size& total) {
  if (d.has_input(1)) return d.sizes_of(1);
  const int64_t parts = d.has("num_outputs") ? d.integer("num_outputs") : d.output_count();
  if (parts < 1 || parts < d.output_count()) d.reject("its attribute 'num_outputs' does not fit its outputs");
  const Size part = ceil_div(total, parts);
  std::vector<Size> sizes;
  for (int64_t k = 0; k < parts; ++k) {
    const bool even = total.is_multiple_of(parts);
    sizes.push_back(even ? part : at_least_zero(min(part, total - part * Size(k))));
  }
  return sizes;
}

void define_split(Definition& d) {
  const Tensor x = d.in(0);
  const int axis = d.axis(d.integer("axis"), x.rank());
  const std::vector<Size> sizes = split_sizes(d, x.size(axis));
  if (static_cast<int>(sizes.size()) < d.output_count()) d.reject("it has more outputs than parts");
  Size start = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    d.require_at_least(sizes[k], 0, "a part is negative");
    Shape shape = x.shape();
    shape[axis] = sizes[k];
    if (d.wants_output(static_cast<int>(k))) {
      d.out(static_cast<int>(k), d.compute("part_" + std::to_string(k), x.type(), shape, [&](Indices i) {
        i[axis] = i[axis] + make_size(start);
        return x(i);
      }));
    }
    start = start + sizes[k];
  }
  d.require_equal(start, x.size(axis), "its parts do not add up to the axis");
}

/// The number of elements put before and after each axis.
struct Padding {
  std::vector<Size> before, after;

  bool touches(int axis) const { return !before[axis].is(0) || !after[axis].is(0); }
};

Padding read_padding(Definition& d, int rank) {
  const std::vector<Size> pads = d.sizes_of(1);
  Padding padding{std::vector<Size>(rank, Size(0)), std::vector<Size>(rank, Size(0))};
  std::vector<Size> axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  if (d.has_input(3)) axes = d.sizes_of(3);
  if (pads.size() != 2 * axes.size()) d.reject("its pads should be two per axis");
  for (size_t k = 0; k < axes.size(); ++k) {
    for (int axis = 0; axis < rank; ++axis) {
      const Size hit = names_axis(d, axes[k], axis, rank);
      padding.before[axis] = padding.before[axis] + hit * pads[k];
      padding.after[axis] = padding.after[axis] + hit * pads[k + axes.size()];
    }
  }
  return padding;
}

/// Where the element at `position` (perhaps outside) of an axis comes from, for the modes that repeat elements.
Expr repeated(std::string_view mode, const Expr& position, const Size& size) {
  const Expr last = make_size(size - Size(1)), zero = make_index(0);
  if (mode == "edge") return max(zero, min(position, last));
  if (mode == "wrap") return mod(position, make_size(size));
  // reflect: a wave of period 2 (size - 1), which is 0 throughout when there is one element.
  const Expr period = max(make_index(1), make_size(Size(2) * size - Size(2)));
  const Expr wave = mod(position, period);
  return min(wave, max(zero, make_size(Size(2) * size - Size(2)) - wave));
}

void define_pad(Definition& d) {
  const Tensor x = d.in(0);
  const std::string mode = d.text("mode");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") d.reject("its mode is " + mode);
  const Padding padding = read_padding(d, x.rank());
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    shape.push_back(x.size(i) + padding.before[i] + padding.after[i]);
    d.require_at_least(shape.back(), 0, "its pads leave less than nothing");
    if (mode == "constant" || !padding.touches(i)) continue;
    d.require_at_least(shape.back() * x.size(i), shape.back(), "an empty axis has no elements to repeat");
  }
  d.out(0, d.compute("padded", x.type(), shape, [&](const Indices& i) {
    Indices at;
    Expr inside = make_integer(DType::kBool, 1);
    for (int axis = 0; axis < x.rank(); ++axis) {
      const Size& before = padding.before[axis];
      const Size& after = padding.after[axis];
      const Expr position = i[axis] - make_size(before);
      at.push_back(mode != "constant" && padding.touches(axis) ? repeated(mode, position, x.size(axis)) : position);
      if (!before.is(0)) inside = inside && ge(position, make_index(0));
      if (!after.is(0)) inside = inside && lt(position, make_size(x.size(axis)));
    }
    if (mode != "constant") return x(at);
    const Expr fill = d.has_input(2) ? d.at(d.in(2), {make_index(0)}, false)
                                     : make_cast(x.type(), make_integer(compute_type(x.type()), 0));
    return select(inside, x(at), fill);
  }));
}

void define_trilu(Definition& d) {
  const Tensor x = d.in(0);
  if (x.rank() < 2) d.reject("its input should have at least two axes");
  const bool upper = d.integer("upper") != 0;
  const Size k = d.has_input(1) ? d.size_of(1) : Size(0);
  d.out(0, d.compute("triangle", x.type(), Shape(x.shape()), [&](const Indices& i) {
    const Expr diagonal = i[x.rank() - 1] - i[x.rank() - 2], offset = make_size(k);
    const Expr zero = make_cast(x.type(), make_integer(compute_type(x.type()), 0));
    return select(upper ? ge(diagonal, offset) : le(diagonal, offset), x(i), zero);
  }));
}

/// Reshape, transpose, reshape: how blocks of channels and of pixels turn into each other.
void rearrange(Definition& d, const Shape& split, const std::vector<int>& order, const Shape& result) {
  const Tensor parts = reshape(d, "parts", d.in(0), split);
  d.out(0, reshape(d, "rearranged", transpose(d, "moved", parts, order), result));
}

int64_t block_size(Definition& d) {
  const int64_t block = d.integer("blocksize");
  if (block < 1) d.reject("its attribute 'blocksize' should be positive");
  if (block > INT32_MAX) d.reject("its attribute 'blocksize' is beyond all images");  // its square is a size
  if (d.input_shape(0).size() != 4) d.reject("its input should have four axes");
  return block;
}

void define_depth_to_space(Definition& d) {
  const int64_t b = block_size(d);
  const Shape s = d.input_shape(0);
  const std::string mode = d.text("mode");
  if (mode != "DCR" && mode != "CRD") d.reject("its mode is " + mode);
  d.require_equal(mod(s[1], b * b), 0, "the square of blocksize does not divide the channels");
  const Size depth = floor_div(s[1], b * b);
  const Shape result = {s[0], depth, s[2] * Size(b), s[3] * Size(b)};
  if (mode == "DCR") return rearrange(d, {s[0], b, b, depth, s[2], s[3]}, {0, 3, 4, 1, 5, 2}, result);
  rearrange(d, {s[0], depth, b, b, s[2], s[3]}, {0, 1, 4, 2, 5, 3}, result);
}

void define_space_to_depth(Definition& d) {
  const int64_t b = block_size(d);
  const Shape s = d.input_shape(0);
  const std::string mode = d.has("mode") ? d.text("mode") : "DCR";
  if (mode != "DCR" && mode != "CRD") d.reject("its mode is " + mode);
  for (int axis = 2; axis < 4; ++axis) d.require_equal(mod(s[axis], b), 0, "blocksize does not divide the image");
  const Size height = floor_div(s[2], b), width = floor_div(s[3], b);
  const Shape result = {s[0], s[1] * Size(b * b), height, width};
  const Shape split = {s[0], s[1], height, b, width, b};
  rearrange(d, split, mode == "DCR" ? std::vector<int>{0, 3, 5, 1, 2, 4} : std::vector<int>{0, 1, 3, 5, 2, 4}, result);
}

Attributes ints(std::string_view name, std::vector<int64_t> values) {
  return {{std::string(name), Attribute(std::move(values))}};
}
Attributes one(std::string_view name, int64_t value) { return {{std::string(name), Attribute(value)}}; }

std::vector<Sample> transpose_samples() {
  return {{.name = "reversed_by_default", .inputs = {f32({3, 4, 5})}},
          {.name = "last_two_axes", .inputs = {f32({2, 3, 7})}, .attributes = ints("perm", {0, 2, 1})},
          {.name = "heads_of_attention", .inputs = {f16({2, 5, 3, 4})}, .attributes = ints("perm", {0, 2, 1, 3})},
          {.name = "scalar", .inputs = {f32({})}},
          {.name = "booleans", .inputs = {boolean({3, 5})}},
          {.name = "no_elements", .inputs = {f32({0, 5})}}};
}
std::vector<Sample> slice_samples() {
  return {{.name = "bounds_per_axis", .inputs = {f32({7, 5}), list({1, 0}), list({5, 3}), list({0, 1}), list({2, 1})}},
          {.name = "negative_bounds", .inputs = {f32({7, 5}), list({-4}), list({-1}), list({-2})}},
          {.name = "backwards", .inputs = {f32({7}), list({-1}), list({INT64_MIN}), list({0}), list({-2})}},
          {.name = "bounds_beyond_the_end", .inputs = {f32({7}), list({2}), list({INT64_MAX})}},
          {.name = "empty", .inputs = {f32({7}), list({5}), list({2})}},
          {.name = "all_of_the_run",
           .inputs = {f32({7, 5}), run_list({-2, 1}), run_list({-9, 9}), run_list({0, 1}), run_list({-1, 2})}},
          {.name = "bounds_of_the_run", .inputs = {i64({7, 5}), run_list({-3}), run_list({100})}}};
}
std::vector<Sample> concat_samples() {
  const auto parts = [](size_t count, const std::vector<int64_t>& shape) {
    return std::vector<SampleInput>(count, f32(shape));
  };
  return {{.name = "many_on_the_first_axis", .inputs = parts(70, {1, 5}), .attributes = one("axis", 0)},
          {.name = "many_on_the_last_axis", .inputs = parts(19, {3, 2}), .attributes = one("axis", 1)},
          {.name = "first_axis", .inputs = {f32({2, 3}), f32({4, 3})}, .attributes = one("axis", 0)},
          {.name = "three_on_the_last_axis", .inputs = {f32({2, 3}), f32({2, 1}), f32({2, 5})},
           .attributes = one("axis", -1)},
          {.name = "one_input", .inputs = {f32({2, 3})}, .attributes = one("axis", 1)},
          {.name = "an_empty_part", .inputs = {f32({2, 3}), f32({2, 0}), f32({2, 2})}, .attributes = one("axis", 1)},
          {.name = "integers", .inputs = {i64({2}), i64({3})}, .attributes = one("axis", 0)}};
}
std::vector<Sample> split_samples() {
  return {{.name = "equal_parts", .inputs = {f32({6, 5})}, .attributes = one("num_outputs", 2), .outputs = 2},
          {.name = "last_part_is_smaller", .inputs = {f32({7})}, .attributes = one("num_outputs", 3), .outputs = 3},
          {.name = "given_sizes", .inputs = {f32({2, 7}), list({1, 4, 2})}, .attributes = one("axis", -1),
           .outputs = 3},
          {.name = "sizes_of_the_run", .inputs = {f32({7}), run_list({3, 4})}, .outputs = 2},
          {.name = "an_empty_part", .inputs = {i64({4}), list({0, 4})}, .outputs = 2}};
}
std::vector<Sample> pad_samples() {
  const auto mode = [](std::string_view name) { return Attributes{{"mode", std::string(name)}}; };
  return {{.name = "zeros", .inputs = {f32({3, 5}), list({1, 0, 0, 2})}},
          {.name = "a_value_on_given_axes",
           .inputs = {f32({2, 3, 5}), list({1, 2, 0, 3}), scalar(DType::kFloat32, 1.5), list({-1, 0})}},
          {.name = "negative_pads_cut", .inputs = {f32({5, 5}), list({-1, 1, 0, -2})}},
          {.name = "edge", .inputs = {f32({3, 5}), list({2, 1, 1, 3})}, .attributes = mode("edge")},
          {.name = "reflect", .inputs = {f32({4, 5}), list({2, 3, 1, 4})}, .attributes = mode("reflect")},
          {.name = "wrap", .inputs = {f32({3, 5}), list({2, 1, 1, 3})}, .attributes = mode("wrap")},
          {.name = "pads_of_the_run", .inputs = {f32({3, 5}), run_list({1, 0, 0, 2})}}};
}
std::vector<Sample> trilu_samples() {
  return {{.name = "upper", .inputs = {f32({4, 5})}},
          {.name = "lower_of_a_batch", .inputs = {f32({2, 5, 3})}, .attributes = one("upper", 0)},
          {.name = "above_the_diagonal", .inputs = {i64({4, 5}), scalar(DType::kInt64, 2)}},
          {.name = "diagonal_of_the_run", .inputs = {f32({4, 5}), values(DType::kInt64, {}, {-2})}}};
}
std::vector<Sample> depth_samples() {
  return {{.name = "depth_first", .inputs = {f32({2, 12, 3, 5})}, .attributes = one("blocksize", 2)},
          {.name = "columns_first", .inputs = {f32({1, 8, 2, 3})},
           .attributes = {{"blocksize", int64_t{2}}, {"mode", std::string("CRD")}}}};
}
std::vector<Sample> space_samples() {
  return {{.name = "blocks_of_two", .inputs = {f32({2, 3, 4, 6})}, .attributes = one("blocksize", 2)},
          {.name = "blocks_of_three", .inputs = {f32({1, 2, 3, 6})}, .attributes = one("blocksize", 3)}};
}

}  // namespace

std::vector<OpDef> movement_ops() {
  std::vector<OpDef> ops = {
      row("Transpose", 25, {"data"}, {{"perm", {}, true}}, define_transpose, transpose_samples, "The axes reordered."),
      row("Slice", 13, {"data", "starts", "ends", "axes?", "steps?"}, {}, define_slice, slice_samples,
          "Every step-th element between bounds along axes."),
      row("Concat", 13, {"inputs*"}, {{"axis"}}, define_concat, concat_samples, "The inputs joined along an axis."),
      row("Split", 18, {"input", "split?"}, {{"axis", int64_t{0}}, {"num_outputs", {}, true}}, define_split,
          split_samples, "The parts of the input along an axis."),
      row("Pad", 25, {"data", "pads", "constant_value?", "axes?"}, {{"mode", std::string("constant")}}, define_pad,
          pad_samples, "Elements put before and after each axis."),
      row("Trilu", 14, {"input", "k?"}, {{"upper", int64_t{1}}}, define_trilu, trilu_samples,
          "The upper or lower triangle of each matrix, 0 elsewhere."),
      row("DepthToSpace", 13, {"input"}, {{"blocksize"}, {"mode", std::string("DCR")}}, define_depth_to_space,
          depth_samples, "Channels moved into blocks of pixels."),
      row("SpaceToDepth", 28, {"input"}, {{"blocksize"}, {"mode", {}, true}}, define_space_to_depth, space_samples,
          "Blocks of pixels moved into channels."),
  };
  for (OpDef& op : ops) {
    if (op.name == "Split") op.outputs = {"outputs*"};
  }
  return ops;
}

}  // namespace graft
