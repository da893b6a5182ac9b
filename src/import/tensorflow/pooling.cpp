// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/layout.h"
#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Conversion;

std::function<void(Conversion&)> pool(std::string_view op, std::string_view operand) {
  return [op, operand](Conversion& c) {
    const ValueId input = c.tensor(operand);
    const bool last = channels_last(c);
    const size_t axes = spatial_axes(c, input);
    Attributes attributes = {{"kernel_shape", spatial(c, "ksize", axes, last)},
                             {"strides", spatial(c, "strides", axes, last)}};
    add_padding(c, attributes, axes, last);
    const ValueId pooled = c.add(op, {to_channels_second(c, input, last)}, std::move(attributes));
    c.give(from_channels_second(c, pooled, last));
  };
}

/// Blocks of channels become blocks of the plane, or the other way round.
std::function<void(Conversion&)> move_blocks(std::string_view op) {
  return [op](Conversion& c) {
    const bool last = channels_last(c);
    Attributes attributes = {{"blocksize", c.integer("block_size")}};
    const ValueId moved = c.add(op, {to_channels_second(c, c.tensor("input"), last)}, std::move(attributes));
    c.give(from_channels_second(c, moved, last));
  };
}

/// Sizes as the caller states them; the three ways to lay the old grid over the new one.
std::function<void(Conversion&)> resize(std::string_view mode) {
  return [mode](Conversion& c) {
    ValueId images = c.tensor("images");
    if (mode == "linear") images = c.cast(images, DType::kFloat32);
    const std::vector<int64_t> size = c.integers("size");
    if (size.size() != 2) c.refuse("its size has not two elements");
    const bool corners = c.flag("align_corners"), half = c.flag("half_pixel_centers");
    const std::string grid = corners ? "align_corners" : half ? "half_pixel" : "asymmetric";
    const Attributes attributes = {{"mode", std::string(mode)},
                                   {"axes", std::vector<int64_t>{2, 3}},
                                   {"coordinate_transformation_mode", grid},
                                   {"nearest_mode", std::string(corners || half ? "round_prefer_ceil" : "floor")}};
    const ValueId x = to_channels_second(c, images, true);
    const ValueId made = c.add("Resize", {x, kNoValue, kNoValue, c.integers_constant(size)}, attributes);
    c.give(from_channels_second(c, made, true));
  };
}

}  // namespace

std::vector<frontend::Row> pooling_rows() {
  return {
      {"MaxPool(T:4 input, *, ksize, strides, padding, explicit_paddings=[], data_format=\"NHWC\")",
       pool("MaxPool", "input")},
      {"AvgPool(T:4 value, *, ksize, strides, padding, data_format=\"NHWC\")", pool("AveragePool", "value")},
      {"MaxPool3D(T:5 input, *, ksize, strides, padding, data_format=\"NDHWC\")", pool("MaxPool", "input")},
      {"AvgPool3D(T:5 input, *, ksize, strides, padding, data_format=\"NDHWC\")", pool("AveragePool", "input")},
      {"DepthToSpace(T:4 input, *, block_size, data_format=\"NHWC\")", move_blocks("DepthToSpace")},
      {"SpaceToDepth(T:4 input, *, block_size, data_format=\"NHWC\")", move_blocks("SpaceToDepth")},
      {"ResizeBilinear(T:4 images, int32:1 size, *, align_corners=False, half_pixel_centers=False)",
       resize("linear")},
      {"ResizeNearestNeighbor(T:4 images, int32:1 size, *, align_corners=False, half_pixel_centers=False)",
       resize("nearest")},
  };
}

}  // namespace graft::tensorflow
