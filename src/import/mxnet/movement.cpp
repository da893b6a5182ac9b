// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

constexpr int64_t kToTheEnd = INT64_MAX;

void concat(Conversion& c) { c.give(c.add("Concat", c.inputs(), {{"axis", integer(c, "dim")}})); }

void stack(Conversion& c) {
  const int64_t axis = integer(c, "axis");
  std::vector<ValueId> parts;
  for (const ValueId value : c.inputs()) parts.push_back(c.add("Unsqueeze", {value, c.integers_constant({axis})}));
  c.give(c.add("Concat", std::move(parts), {{"axis", axis}}));
}

ValueId sliced(Conversion& c, ValueId data, const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
               const std::vector<int64_t>& axes, const std::vector<int64_t>& step) {
  return c.add("Slice", {data, c.integers_constant(begin), c.integers_constant(end), c.integers_constant(axes),
                         c.integers_constant(step)});
}

/// Parts of equal size along an axis, which goes where squeeze_axis says so.
void split_equally(Conversion& c, int64_t count) {
  const ValueId data = c.tensor("data");
  const int64_t axis = c.axis(integer(c, "axis"), c.rank_of(data));
  if (count < 1 || count > 1024) c.refuse(fmt::format("{} parts", count));
  std::vector<ValueId> parts = c.add_several("Split", {data}, {{"axis", axis}, {"num_outputs", count}},
                                             static_cast<int>(count));
  for (ValueId& part : parts) {
    if (flag(c, "squeeze_axis")) part = c.add("Squeeze", {part, c.integers_constant({axis})});
  }
  c.give(std::move(parts));
}

void slice_channel(Conversion& c) { split_equally(c, integer(c, "num_outputs")); }

/// Into so many parts of equal size, or at given borders, the first of which is 0.
void split_v2(Conversion& c) {
  const int64_t sections = integer(c, "sections");
  if (sections != 0) return split_equally(c, sections);
  const ValueId data = c.tensor("data");
  const int64_t axis = c.axis(integer(c, "axis"), c.rank_of(data));
  const std::vector<int64_t> borders = integers(c, "indices");
  std::vector<ValueId> parts;
  for (size_t i = 0; i < borders.size(); ++i) {
    const int64_t end = i + 1 < borders.size() ? borders[i + 1] : kToTheEnd;
    parts.push_back(sliced(c, data, {borders[i]}, {end}, {axis}, {1}));
    if (flag(c, "squeeze_axis")) parts.back() = c.add("Squeeze", {parts.back(), c.integers_constant({axis})});
  }
  c.give(std::move(parts));
}

void transpose(Conversion& c) {
  const ValueId data = c.tensor("data");
  const int rank = c.rank_of(data);
  std::vector<int64_t> order = integers(c, "axes");
  for (int64_t& axis : order) axis = c.axis(axis, rank);
  if (order.empty()) {
    order.resize(static_cast<size_t>(rank));
    std::iota(order.rbegin(), order.rend(), 0);
  }
  c.give(c.add("Transpose", {data}, {{"perm", order}}));
}

void swap_axes(Conversion& c) {
  const ValueId data = c.tensor("data");
  const int rank = c.rank_of(data);
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(c.axis(integer(c, "dim1"), rank))],
            order[static_cast<size_t>(c.axis(integer(c, "dim2"), rank))]);
  c.give(c.add("Transpose", {data}, {{"perm", order}}));
}

/// Of the first axes, as many as `begin` has; None is the end that the step comes from or goes to.
void slice(Conversion& c) {
  const auto begin = some_integers(c, "begin"), end = some_integers(c, "end"), step = some_integers(c, "step");
  if (begin.size() != end.size() || (!step.empty() && step.size() != begin.size())) {
    c.refuse("a begin, end and step of different lengths");
  }
  std::vector<int64_t> begins, ends, axes, steps;
  for (size_t i = 0; i < begin.size(); ++i) {
    const int64_t stride = step.empty() ? 1 : step[i].value_or(1);
    begins.push_back(begin[i].value_or(stride < 0 ? kToTheEnd : 0));
    ends.push_back(end[i].value_or(stride < 0 ? -kToTheEnd : kToTheEnd));
    axes.push_back(static_cast<int64_t>(i));
    steps.push_back(stride);
  }
  c.give(sliced(c, c.tensor("data"), begins, ends, axes, steps));
}

void slice_axis(Conversion& c) {
  const ValueId data = c.tensor("data");
  const int64_t axis = c.axis(integer(c, "axis"), c.rank_of(data));
  const int64_t end = given(c, "end") ? integer(c, "end") : kToTheEnd;
  c.give(sliced(c, data, {integer(c, "begin")}, {end}, {axis}, {1}));
}

/// The first elements of each axis, as many as the other has there.
void slice_like(Conversion& c) {
  ValueId data = c.tensor("data");
  const ValueId like = c.tensor("shape_like");
  std::vector<int64_t> axes = integers(c, "axes");
  for (int64_t& axis : axes) axis = c.axis(axis, c.rank_of(data));
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(c.rank_of(data)));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (const int64_t axis : axes) {
    if (axis >= c.rank_of(like)) c.refuse("an axis that the other does not have");
    const ValueId end = c.add("Shape", {like}, {{"start", axis}, {"end", axis + 1}});
    data = c.add("Slice", {data, c.integers_constant({0}), end, c.integers_constant({axis})});
  }
  c.give(data);
}

/// pad_width has the two ends of each axis side by side.
void pad(Conversion& c) {
  const ValueId data = c.tensor("data");
  const std::vector<int64_t> width = integers(c, "pad_width");
  if (width.size() % 2 != 0) c.refuse("a pad_width without an end for each begin");
  std::vector<int64_t> pads(width.size());
  for (size_t i = 0; i < width.size(); ++i) pads[(i % 2) * (width.size() / 2) + i / 2] = width[i];
  const std::string mode = word(c, "mode");
  const ValueId fill = mode == "constant" ? c.real_constant(real(c, "constant_value"), c.type_of(data)) : kNoValue;
  c.give(c.add("Pad", {data, c.integers_constant(pads), fill}, {{"mode", mode}}));
}

/// As many as reps has more axes than the data, in front.
void tile(Conversion& c) {
  ValueId data = c.tensor("data");
  std::vector<int64_t> reps = integers(c, "reps");
  const auto rank = static_cast<size_t>(c.rank_of(data));
  if (reps.size() < rank) reps.insert(reps.begin(), rank - reps.size(), 1);
  for (size_t added = rank; added < reps.size(); ++added) data = c.add("Unsqueeze", {data, c.integers_constant({0})});
  c.give(c.add("Tile", {data, c.integers_constant(reps)}));
}

/// Each element so often in a row: an axis behind it is what is repeated.
void repeat(Conversion& c) {
  const ValueId data = c.tensor("data");
  if (!given(c, "axis")) {  // of all elements, in one row
    const ValueId column = c.add("Reshape", {data, c.integers_constant({-1, 1})});
    const ValueId tiled = c.add("Tile", {column, c.integers_constant({1, integer(c, "repeats")})});
    return c.give(c.add("Reshape", {tiled, c.integers_constant({-1})}));
  }
  const int rank = c.rank_of(data);
  const int64_t axis = c.axis(integer(c, "axis"), rank), times = integer(c, "repeats");
  std::vector<int64_t> reps(static_cast<size_t>(rank + 1), 1), shape;
  reps[static_cast<size_t>(axis + 1)] = times;
  const auto size = c.size_of(data, axis).as_constant();
  if (!size) c.refuse("an axis whose size is known only while running");
  for (int64_t each = 0; each < rank; ++each) shape.push_back(each == axis ? c.product(*size, times) : 0);
  for (int64_t each = axis + 1; each < rank; ++each) {  // behind the new axis a place is no longer the input's
    const auto behind = c.size_of(data, each).as_constant();
    if (!behind) c.refuse("an axis behind it whose size is known only while running");
    shape[static_cast<size_t>(each)] = *behind;
  }
  const ValueId tiled = c.add("Tile", {c.add("Unsqueeze", {data, c.integers_constant({axis + 1})}),
                                       c.integers_constant(reps)});
  c.give(c.add("Reshape", {tiled, c.integers_constant(shape)}));
}

/// The nearest element, each map's axis `scale` times as long.
void up_sampling(Conversion& c) {
  if (word(c, "sample_type") != "nearest") c.refuse("upsampling by weights");
  if (c.inputs().size() != 1) c.refuse("several inputs");
  const auto scale = static_cast<double>(integer(c, "scale"));
  const ValueId data = c.inputs()[0];
  if (c.rank_of(data) != 4) c.refuse("an input that is no batch of maps");
  const std::vector<float> factors = {1, 1, static_cast<float>(scale), static_cast<float>(scale)};
  const ValueId scales = c.constant(TensorData::from_values<float>(DType::kFloat32, {4}, factors));
  c.give(c.add("Resize", {data, kNoValue, scales},
               {{"mode", std::string("nearest")},
                {"coordinate_transformation_mode", std::string("asymmetric")},
                {"nearest_mode", std::string("floor")}}));
}

/// To a shape in which 0 keeps an axis.
void broadcast_to(Conversion& c) {
  const ValueId data = c.tensor("data");
  std::vector<int64_t> shape = integers(c, "shape");
  if (static_cast<int>(shape.size()) != c.rank_of(data)) c.refuse("a shape of another rank");
  for (int64_t& size : shape) size = size == 0 ? 1 : size;  // Expand keeps what 1 is asked of
  c.give(c.add("Expand", {data, c.integers_constant(shape)}));
}

void broadcast_axis(Conversion& c) {
  const ValueId data = c.tensor("data");
  const std::vector<int64_t> axes = integers(c, "axis"), sizes = integers(c, "size");
  if (axes.size() != sizes.size()) c.refuse("axes and sizes of different lengths");
  std::vector<int64_t> shape(static_cast<size_t>(c.rank_of(data)), 1);
  for (size_t i = 0; i < axes.size(); ++i) shape[static_cast<size_t>(c.axis(axes[i], c.rank_of(data)))] = sizes[i];
  c.give(c.add("Expand", {data, c.integers_constant(shape)}));
}

void broadcast_like(Conversion& c) {
  if (given(c, "lhs_axes") || given(c, "rhs_axes")) c.refuse("axes of its own choice");
  const ValueId data = c.tensor("lhs"), like = c.tensor("rhs");
  if (c.rank_of(data) != c.rank_of(like)) c.refuse("operands of different ranks");
  c.give(c.add("Expand", {data, c.add("Shape", {like})}));
}

/// Backwards along some axes.
void reverse(Conversion& c) {
  const ValueId data = c.tensor("data");
  const std::vector<int64_t> axes = integers(c, "axis"), ones(axes.size(), -1), ends(axes.size(), -kToTheEnd);
  if (axes.empty()) c.refuse("no axis");
  c.give(sliced(c, data, ones, ends, axes, ones));
}

std::function<void(Conversion&)> in_blocks(std::string_view op) {
  return [op](Conversion& c) { c.give(c.add(op, {c.tensor("data")}, {{"blocksize", integer(c, "block_size")}})); };
}

void shape_array(Conversion& c) { c.give(c.add("Shape", {c.tensor("data")})); }
void size_array(Conversion& c) {
  c.give(c.add("Reshape", {c.add("Size", {c.tensor("data")}), c.integers_constant({1})}));
}

/// The shape of the other; or some axes in place of some of one's own.
void reshape_like(Conversion& c) {
  const ValueId data = c.tensor("lhs"), like = c.tensor("rhs");
  const auto border = [&](std::string_view name, ValueId of, int64_t otherwise) {
    if (!given(c, name)) return otherwise;
    const int64_t axis = integer(c, name), rank = c.rank_of(of);
    if (axis < -rank || axis > rank) c.refuse(fmt::format("'{}' is outside of the axes", name));
    return axis < 0 ? axis + rank : axis;
  };
  std::vector<ValueId> parts;
  const auto take = [&](ValueId of, int64_t begin, int64_t end) {
    if (begin < end) parts.push_back(c.add("Shape", {of}, {{"start", begin}, {"end", end}}));
  };
  take(data, 0, border("lhs_begin", data, 0));
  take(like, border("rhs_begin", like, 0), border("rhs_end", like, c.rank_of(like)));
  take(data, border("lhs_end", data, c.rank_of(data)), c.rank_of(data));
  if (parts.empty()) c.refuse("a result without axes");
  const ValueId shape = parts.size() == 1 ? parts[0] : c.add("Concat", parts, {{"axis", int64_t{0}}});
  c.give(c.add("Reshape", {data, shape}, {{"allowzero", int64_t{1}}}));
}

/// A tensor of one number that no input has.
void fill(Conversion& c, double value) {
  const std::vector<int64_t> shape = integers(c, "shape");
  if (shape.empty() || std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size <= 0; })) {
    c.refuse("a shape that its uses have to tell");
  }
  c.give(c.add("Expand", {c.real_constant(value, type(c, "dtype")), c.integers_constant(shape)}));
}

std::function<void(Conversion&)> filled(double value) {
  return [value](Conversion& c) { fill(c, value); };
}

/// Bilinear, to a size that is given.
void bilinear_resize(Conversion& c) {
  const ValueId data = c.tensor("data");
  if (c.rank_of(data) != 4) c.refuse("an input that is no batch of maps");
  if (word(c, "mode") != "size" || c.has("like")) c.refuse("a size that follows from another");
  if (given(c, "scale_height") || given(c, "scale_width")) c.refuse("a scale in place of a size");
  const ValueId batch = c.add("Shape", {data}, {{"start", int64_t{0}}, {"end", int64_t{2}}});
  const ValueId sizes = c.add("Concat", {batch, c.integers_constant({integer(c, "height"), integer(c, "width")})},
                              {{"axis", int64_t{0}}});
  const bool corners = flag(c, "align_corners");
  c.give(c.add("Resize", {data, kNoValue, kNoValue, sizes},
               {{"mode", std::string("linear")},
                {"coordinate_transformation_mode", std::string(corners ? "align_corners" : "half_pixel")}}));
}

/// Zeros or ones of the operand's shape.
std::function<void(Conversion&)> filled_like(double value) {
  return [value](Conversion& c) {
    const ValueId data = c.tensor("data");
    c.give(c.add("Expand", {c.real_constant(value, c.type_of(data)), c.add("Shape", {data})}));
  };
}

}  // namespace

std::vector<Row> movement_rows() {
  return {
      {"Concat concat", "... data, num_args=0, dim=1", concat},
      {"stack _npi_stack", "... data, axis=0, num_args=0", stack},
      {"SliceChannel split", "data, num_outputs, axis=1, squeeze_axis=False", slice_channel},
      {"_split_v2 _npi_hsplit", "data, indices=(), axis=1, squeeze_axis=False, sections=0", split_v2},
      {"transpose", "data, axes=()", transpose},
      {"SwapAxis swapaxes", "data, dim1=0, dim2=0", swap_axes},
      {"slice crop", "data, begin, end, step=()", slice},
      {"slice_axis", "data, axis, begin, end=None", slice_axis},
      {"slice_like", "data, shape_like, axes=()", slice_like},
      {"Pad pad", "data, mode=constant, pad_width=(), constant_value=0", pad},
      {"tile", "data, reps", tile},
      {"repeat", "data, repeats, axis=None", repeat},
      {"UpSampling", "... data, scale=1, num_filter=0, sample_type=nearest, multi_input_mode=concat, num_args=1, "
       "workspace=512", up_sampling},
      {"broadcast_to", "data, shape=()", broadcast_to},
      {"broadcast_axis broadcast_axes", "data, axis=(), size=()", broadcast_axis},
      {"broadcast_like", "lhs, rhs, lhs_axes=None, rhs_axes=None", broadcast_like},
      {"reverse flip _npi_flip", "data, axis", reverse},
      {"depth_to_space", "data, block_size", in_blocks("DepthToSpace")},
      {"space_to_depth", "data, block_size", in_blocks("SpaceToDepth")},
      {"shape_array", "data", shape_array},
      {"size_array", "data", size_array},
      {"reshape_like", "lhs, rhs, lhs_begin=None, lhs_end=None, rhs_begin=None, rhs_end=None", reshape_like},
      {"_zeros", "shape=(), ctx=, dtype=float32", filled(0)},
      {"_ones", "shape=(), ctx=, dtype=float32", filled(1)},
      {"_full", "shape=(), ctx=, dtype=float32, value=0", [](Conversion& c) { fill(c, real(c, "value")); }},
      {"_contrib_BilinearResize2D", "data, like=None, height=1, width=1, scale_height=None, scale_width=None, "
       "mode=size, align_corners=True", bilinear_resize},
      {"zeros_like", "data", filled_like(0)},
      {"ones_like", "data", filled_like(1)},
  };
}

}  // namespace graft::mxnet
