// SPDX-License-Identifier: Apache-2.0
// Parts of images: boxes, regions, sampling at positions, what prepares images; and elements by their indices.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

constexpr int64_t kToTheEnd = INT64_MAX;

ValueId number(Conversion& c, double value, ValueId like) { return c.real_constant(value, c.type_of(like)); }

ValueId sliced(Conversion& c, ValueId data, int64_t begin, int64_t end, int64_t axis) {
  return c.add("Slice", {data, c.integers_constant({begin}), c.integers_constant({end}), c.integers_constant({axis})});
}

/// Means of samples in a grid over each region, whose first number says of which image.
void align_regions(Conversion& c) {
  if (flag(c, "position_sensitive")) c.refuse("channels of their own for each place");
  const std::vector<int64_t> size = integers(c, "pooled_size");
  if (size.size() != 2 || integer(c, "sample_ratio") < 1) c.refuse("a number of samples that depends on the regions");
  const ValueId data = c.tensor("data"), regions = c.tensor("rois");
  if (c.rank_of(regions) != 2) c.refuse("regions that are no rows");
  const ValueId image = c.add("Squeeze", {sliced(c, regions, 0, 1, 1), c.integers_constant({1})});
  const ValueId none = c.add("Less", {image, number(c, 0, image)});  // such a region gives zeros
  const ValueId index = c.add("Where", {none, number(c, 0, image), image});
  const ValueId made = c.add("RoiAlign", {data, sliced(c, regions, 1, kToTheEnd, 1), c.cast(index, DType::kInt64)},
                             {{"output_height", size[0]},
                              {"output_width", size[1]},
                              {"sampling_ratio", integer(c, "sample_ratio")},
                              {"spatial_scale", real(c, "spatial_scale")},
                              {"coordinate_transformation_mode",
                               std::string(flag(c, "aligned") ? "half_pixel" : "output_half_pixel")}});
  const ValueId mask = c.add("Unsqueeze", {none, c.integers_constant({1, 2, 3})});
  c.give(c.add("Where", {mask, number(c, 0, made), made}));
}

/// The largest element in each bin of each region; zeros for a region of an image that there is not.
void pool_regions(Conversion& c) {
  const std::vector<int64_t> size = integers(c, "pooled_size");
  const ValueId data = c.tensor("data"), regions = c.tensor("rois");
  if (size.size() != 2) c.refuse("a pooled_size of other than two sizes");
  if (c.rank_of(data) != 4 || c.rank_of(regions) != 2) c.refuse("inputs of other axes");
  if (c.type_of(regions) != DType::kFloat32) c.refuse("regions that are not of float32");
  const ValueId image = c.cast(sliced(c, regions, 0, 1, 1), DType::kInt64);
  const ValueId count = c.add("Shape", {data}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
  const ValueId zero = c.integers_constant({0});
  const ValueId none = c.add("Or", {c.add("Less", {image, zero}), c.add("GreaterOrEqual", {image, count})});
  const ValueId index = c.cast(c.add("Where", {none, zero, image}), DType::kFloat32);
  const ValueId rows = c.add("Concat", {index, sliced(c, regions, 1, kToTheEnd, 1)}, {{"axis", int64_t{1}}});
  const ValueId made = c.add("MaxRoiPool", {data, rows}, {{"pooled_shape", size},
                                                         {"spatial_scale", real(c, "spatial_scale")}});
  const ValueId mask = c.add("Unsqueeze", {none, c.integers_constant({2, 3})});
  c.give(c.add("Where", {mask, number(c, 0, made), made}));
}

struct Box {
  ValueId low, high;  ///< the corners: (x, y) along the last axis
};

/// The corners of boxes that are stated so, or by their centre and size.
Box corners(Conversion& c, ValueId boxes, const std::string& format) {
  const int64_t axis = c.rank_of(boxes) - 1;
  const ValueId first = sliced(c, boxes, 0, 2, axis), second = sliced(c, boxes, 2, 4, axis);
  if (format == "corner") return {first, second};
  if (format != "center") c.refuse(fmt::format("boxes in the format '{}'", format));
  const ValueId half = c.add("Mul", {second, number(c, 0.5, second)});
  return {c.add("Sub", {first, half}), c.add("Add", {first, half})};
}

/// The area from one corner to the other, 0 where they are turned.
ValueId area(Conversion& c, ValueId low, ValueId high, int64_t axis) {
  const ValueId side = c.add("Max", {c.add("Sub", {high, low}), number(c, 0, low)});
  return c.add("ReduceProd", {side, c.integers_constant({axis})}, {{"keepdims", int64_t{0}}});
}

/// Of each box with each of the others, what they share over what both have.
void overlaps(Conversion& c) {
  const ValueId left = c.tensor("lhs"), right = c.tensor("rhs");
  if (c.rank_of(left) != 2 || c.rank_of(right) != 2) c.refuse("boxes that are no rows");
  const std::string format = word(c, "format");
  const Box a = corners(c, left, format), b = corners(c, right, format);
  const auto wide = [&](ValueId value, int64_t axis) {
    return c.add("Unsqueeze", {value, c.integers_constant({axis})});
  };
  const ValueId low = c.add("Max", {wide(a.low, 1), wide(b.low, 0)});
  const ValueId high = c.add("Min", {wide(a.high, 1), wide(b.high, 0)});
  const ValueId shared = area(c, low, high, 2);
  const ValueId both = c.add("Add", {wide(area(c, a.low, a.high, 1), 1), wide(area(c, b.low, b.high, 1), 0)});
  const ValueId all = c.add("Sub", {both, shared}), zero = number(c, 0, all);
  c.give(c.add("Where", {c.add("Greater", {all, zero}), c.add("Div", {shared, all}), zero}));
}

/// Boxes from what a network says about anchors: how far the centre moves, and by which power of e sizes grow.
void decode_boxes(Conversion& c) {
  const ValueId data = c.tensor("data"), anchors = c.tensor("anchors");
  if (c.rank_of(data) != 3 || c.rank_of(anchors) != 3 || c.type_of(data) != c.type_of(anchors)) {
    c.refuse("boxes and anchors that are no batches of rows of one type");
  }
  const std::string format = word(c, "format");
  ValueId center = sliced(c, anchors, 0, 2, 2), size = sliced(c, anchors, 2, 4, 2);
  if (format == "corner") {
    size = c.add("Sub", {size, center});
    center = c.add("Add", {center, c.add("Mul", {size, number(c, 0.5, size)})});
  } else if (format != "center") {
    c.refuse(fmt::format("anchors in the format '{}'", format));
  }
  std::vector<ValueId> factors;
  for (const char* name : {"std0", "std1", "std2", "std3"}) {
    factors.push_back(c.add("Reshape", {number(c, real(c, name), data), c.integers_constant({1})}));
  }
  const ValueId scaled = c.add("Mul", {data, c.add("Concat", factors, {{"axis", int64_t{0}}})});
  ValueId growth = sliced(c, scaled, 2, 4, 2);
  if (real(c, "clip") > 0) growth = c.add("Min", {growth, number(c, real(c, "clip"), growth)});
  const ValueId half = c.add("Mul", {c.add("Mul", {c.add("Exp", {growth}), size}), number(c, 0.5, size)});
  const ValueId middle = c.add("Add", {c.add("Mul", {sliced(c, scaled, 0, 2, 2), size}), center});
  c.give(c.add("Concat", {c.add("Sub", {middle, half}), c.add("Add", {middle, half})}, {{"axis", int64_t{2}}}));
}

/// Bilinear, at positions from -1 to 1 that stand beside each other along the second axis; zeros outside.
ValueId sampled(Conversion& c, ValueId data, ValueId grid) {
  const ValueId last = c.add("Transpose", {grid}, {{"perm", std::vector<int64_t>{0, 2, 3, 1}}});
  return c.add("GridSample", {data, last}, {{"mode", std::string("linear")},
                                            {"padding_mode", std::string("zeros")},
                                            {"align_corners", int64_t{1}}});
}

void check_maps(Conversion& c, ValueId value) {
  if (c.rank_of(value) != 4) c.refuse("an input that is no batch of maps");
}

void sample(Conversion& c) {
  check_maps(c, c.tensor("data"));
  check_maps(c, c.tensor("grid"));
  c.give(sampled(c, c.tensor("data"), c.tensor("grid")));
}

/// The positions -1 to 1 of a map of that size: [3, height * width] of x, y and 1.
ValueId positions_of(Conversion& c, DType type, int64_t height, int64_t width) {
  if (height < 2 || width < 2 || c.product(height, width) > (1 << 24)) c.refuse("a target_shape below 2");
  const int64_t count = height * width;
  TensorData made = TensorData::zeros(type, {3, count});
  for (int64_t i = 0; i < count; ++i) {
    made.write_double(i, -1 + 2.0 * static_cast<double>(i % width) / static_cast<double>(width - 1));
    made.write_double(count + i, -1 + 2.0 * static_cast<double>(i / width) / static_cast<double>(height - 1));
    made.write_double(2 * count + i, 1);
  }
  return c.constant(std::move(made));
}

/// Where an affine map of six numbers sends the positions of a map of `target_shape`.
ValueId affine_grid(Conversion& c, ValueId data) {
  const std::vector<int64_t> target = integers(c, "target_shape");
  if (target.size() != 2) c.refuse("a target_shape of other than two sizes");
  const ValueId matrices = c.add("Reshape", {data, c.integers_constant({-1, 2, 3})});
  const ValueId moved = c.add("MatMul", {matrices, positions_of(c, c.type_of(data), target[0], target[1])});
  return c.add("Reshape", {moved, c.integers_constant({-1, 2, target[0], target[1]})});
}

/// The positions of a map, each moved by so many elements.
ValueId warped_grid(Conversion& c, ValueId flow) {
  check_maps(c, flow);
  const auto height = c.size_of(flow, 2).as_constant(), width = c.size_of(flow, 3).as_constant();
  if (!height || !width) c.refuse("a map whose size is known only while running");
  const ValueId all = positions_of(c, c.type_of(flow), *height, *width);
  const ValueId base = c.add("Reshape", {sliced(c, all, 0, 2, 0), c.integers_constant({1, 2, *height, *width})});
  TensorData unit = TensorData::zeros(c.type_of(flow), {1, 2, 1, 1});
  unit.write_double(0, 2.0 / static_cast<double>(*width - 1));
  unit.write_double(1, 2.0 / static_cast<double>(*height - 1));
  return c.add("Add", {base, c.add("Mul", {flow, c.constant(std::move(unit))})});
}

void generate_grid(Conversion& c) {
  const std::string kind = word(c, "transform_type");
  if (kind != "affine" && kind != "warp") c.refuse(fmt::format("the transform '{}'", kind));
  c.give(kind == "affine" ? affine_grid(c, c.tensor("data")) : warped_grid(c, c.tensor("data")));
}

void transform(Conversion& c) {
  check_maps(c, c.tensor("data"));
  c.give(sampled(c, c.tensor("data"), affine_grid(c, c.tensor("loc"))));
}

/// A convolution whose taps are moved by what another input says, and weighted by a third. Of the one without weights
/// MXNet has another border, so that it has no row.
void deformable_convolution(Conversion& c) {
  check_layout(c);
  const size_t axes = integers(c, "kernel").size();
  std::vector<int64_t> pads = per_axis(c, "pad", axes, 0);
  const std::vector<int64_t> begin = pads;
  pads.insert(pads.end(), begin.begin(), begin.end());
  const ValueId bias = flag(c, "no_bias") ? kNoValue : c.tensor("bias");
  c.give(c.add("DeformConv", {c.tensor("data"), c.tensor("weight"), c.tensor("offset"), bias, c.tensor("mask")},
               {{"kernel_shape", integers(c, "kernel")},
                {"strides", per_axis(c, "stride", axes, 1)},
                {"dilations", per_axis(c, "dilate", axes, 1)},
                {"pads", pads},
                {"group", integer(c, "num_group")},
                {"offset_group", integer(c, "num_deformable_group")}}));
}

/// A window of maps, from an offset on or in the middle, as large as stated or as another map.
void crop(Conversion& c) {
  const std::vector<ValueId> inputs = c.inputs();
  const std::vector<int64_t> offset = integers(c, "offset");
  if (inputs.empty() || inputs.size() > 2 || offset.size() != 2) c.refuse("inputs of another number");
  std::vector<int64_t> size = integers(c, "h_w");
  for (const ValueId input : inputs) check_maps(c, input);
  ValueId data = inputs[0];
  for (const int64_t axis : {2, 3}) {
    const auto place = static_cast<size_t>(axis - 2);
    const auto has = c.size_of(data, axis).as_constant();
    const std::optional<int64_t> wanted = inputs.size() == 2 ? c.size_of(inputs[1], axis).as_constant()
                                          : size.size() == 2 ? std::optional<int64_t>(size[place])
                                                             : std::nullopt;
    if (!has || !wanted) c.refuse("a map whose size is known only while running");
    const int64_t begin = flag(c, "center_crop") ? (*has - *wanted) / 2 : offset[place];
    data = sliced(c, data, begin, c.sum(begin, *wanted), axis);
  }
  c.give(data);
}

/// The axes of an image, or of a batch of them, with the channels first or last.
std::vector<int64_t> channels_moved(Conversion& c, ValueId data) {
  if (c.rank_of(data) == 3) return {2, 0, 1};
  if (c.rank_of(data) == 4) return {0, 3, 1, 2};
  c.refuse("an input that is no image");
}

/// Pixels of 0 to 255 become numbers of 0 to 1, with the channels first.
void image_to_tensor(Conversion& c) {
  const ValueId data = c.tensor("data");
  const ValueId turned = c.add("Transpose", {data}, {{"perm", channels_moved(c, data)}});
  c.give(c.add("Div", {c.cast(turned, DType::kFloat32), c.real_constant(255, DType::kFloat32)}));
}

/// Less the mean of each channel, over its deviation.
void image_normalize(Conversion& c) {
  const ValueId data = c.tensor("data");
  if (c.rank_of(data) != 3 && c.rank_of(data) != 4) c.refuse("an input that is no image");
  const auto channels = [&](const char* name) {
    const std::vector<double> numbers = reals(c, name);
    TensorData made = TensorData::zeros(c.type_of(data), {static_cast<int64_t>(numbers.size()), 1, 1});
    for (size_t i = 0; i < numbers.size(); ++i) made.write_double(static_cast<int64_t>(i), numbers[i]);
    return c.constant(std::move(made));
  };
  c.give(c.add("Div", {c.add("Sub", {data, channels("mean")}), channels("std")}));
}

/// Images have their rows and columns before the channels.
std::function<void(Conversion&)> image_flip(int64_t axis_from_behind) {
  return [axis_from_behind](Conversion& c) {
    const ValueId data = c.tensor("data");
    const int64_t axis = c.axis(axis_from_behind, c.rank_of(data));
    c.give(c.add("Slice", {data, c.integers_constant({-1}), c.integers_constant({-kToTheEnd}),
                           c.integers_constant({axis}), c.integers_constant({-1})}));
  };
}

void image_crop(Conversion& c) {
  const ValueId data = c.tensor("data");
  const int64_t x = integer(c, "x"), y = integer(c, "y");
  const ValueId rows = sliced(c, data, y, c.sum(y, integer(c, "height")), c.axis(-3, c.rank_of(data)));
  c.give(sliced(c, rows, x, c.sum(x, integer(c, "width")), c.axis(-2, c.rank_of(data))));
}

/// The indices' first axis goes over coordinates; ONNX has it last.
ValueId coordinates(Conversion& c) {
  const ValueId indices = c.cast(c.tensor("indices"), DType::kInt64);
  std::vector<int64_t> order(static_cast<size_t>(c.rank_of(indices)));
  if (order.empty()) c.refuse("indices without axes");
  std::iota(order.begin(), order.end(), 1);
  order.back() = 0;
  return c.add("Transpose", {indices}, {{"perm", order}});
}

/// Elements at their places among zeros.
void scatter(Conversion& c) {
  const ValueId data = c.tensor("data");
  const ValueId zeros = c.add("Expand", {number(c, 0, data), c.integers_constant(integers(c, "shape"))});
  c.give(c.add("ScatterND", {zeros, coordinates(c), data}));
}

void scatter_into(Conversion& c) { c.give(c.add("ScatterND", {c.tensor("lhs"), coordinates(c), c.tensor("rhs")})); }

/// Rows at their places in another tensor.
void copy_rows(Conversion& c) {
  const ValueId index = c.cast(c.tensor("index_vector"), DType::kInt64);
  if (c.rank_of(index) != 1) c.refuse("indices that are no row");
  const ValueId places = c.add("Unsqueeze", {index, c.integers_constant({1})});
  c.give(c.add("ScatterND", {c.tensor("old_tensor"), places, c.tensor("new_tensor")}));
}

}  // namespace

std::vector<Row> region_rows() {
  return {
      {"_contrib_ROIAlign", "data, rois, pooled_size, spatial_scale, sample_ratio=-1, position_sensitive=False, "
       "aligned=False", align_regions},
      {"ROIPooling _npx_roi_pooling", "data, rois, pooled_size, spatial_scale", pool_regions},
      {"_contrib_box_iou", "lhs, rhs, format=corner", overlaps},
      {"_contrib_box_decode", "data, anchors, std0=1, std1=1, std2=1, std3=1, clip=-1, format=center", decode_boxes},
      {"BilinearSampler", "data, grid, cudnn_off=None", sample},
      {"GridGenerator", "data, transform_type, target_shape=(0, 0)", generate_grid},
      {"SpatialTransformer", "data, loc, target_shape=(0, 0), transform_type=affine, sampler_type=bilinear, "
       "cudnn_off=None", transform},
      {"_contrib_ModulatedDeformableConvolution", "data, offset, mask, weight, bias=None, kernel=(), stride=(), "
       "dilate=(), pad=(), num_filter=0, num_group=1, num_deformable_group=1, workspace=1024, no_bias=False, "
       "im2col_step=64, layout=None", deformable_convolution},
      {"Crop", "... data, num_args=0, offset=(0, 0), h_w=(0, 0), center_crop=False", crop},
      {"_image_to_tensor", "data", image_to_tensor},
      {"_image_normalize", "data, mean=0, std=1", image_normalize},
      {"_image_flip_left_right", "data", image_flip(-2)},
      {"_image_flip_top_bottom", "data", image_flip(-3)},
      {"_image_crop", "data, x, y, width, height", image_crop},
      {"scatter_nd", "data, indices, shape", scatter},
      {"_scatter_set_nd", "lhs, rhs, indices, shape=()", scatter_into},
      {"_contrib_index_copy", "old_tensor, index_vector, new_tensor", copy_rows},
  };
}

}  // namespace graft::mxnet
