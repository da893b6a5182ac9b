// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "import/tensorflow/layout.h"
#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Conversion;

int64_t known_size(Conversion& c, ValueId value, int64_t axis, const char* what) {
  const auto size = c.size_of(value, axis).as_constant();
  if (!size) c.refuse(std::string(what) + " is known only while running");
  return *size;
}

/// Weights as [outputs, inputs, kernel...] from [kernel..., first, second].
ValueId weights_of(Conversion& c, ValueId filter, bool outputs_last) {
  const auto axes = spatial_axes(c, filter);
  std::vector<int64_t> order(axes + 2);
  std::iota(order.begin() + 2, order.end(), 0);
  const auto first = static_cast<int64_t>(axes);
  order[0] = outputs_last ? first + 1 : first;
  order[1] = outputs_last ? first : first + 1;
  return c.add("Transpose", {filter}, {{"perm", order}});
}

/// Channels in groups where the filter has fewer inputs than there are.
int64_t groups_of(Conversion& c, ValueId input, ValueId filter, bool last) {
  const auto channels = c.size_of(input, last ? c.rank_of(input) - 1 : 1).as_constant();
  const auto taken = c.size_of(filter, c.rank_of(filter) - 2).as_constant();
  if (!channels || !taken || *taken == *channels) return 1;
  if (*taken <= 0 || *channels % *taken != 0) c.refuse("its channels do not fit its filter");
  return *channels / *taken;
}

Attributes window(Conversion& c, size_t axes, bool last) {
  Attributes attributes = {{"strides", spatial(c, "strides", axes, last)},
                           {"dilations", spatial(c, "dilations", axes, last)}};
  add_padding(c, attributes, axes, last);
  return attributes;
}

/// The convolution's result, as the node lays its images out. `filter` is [kernel..., inputs, outputs].
ValueId convolved(Conversion& c, std::string_view operand, ValueId filter) {
  const ValueId input = c.tensor(operand);
  const bool last = channels_last(c);
  if (c.rank_of(input) != c.rank_of(filter)) c.refuse("its input and filter have not as many axes");
  Attributes attributes = window(c, spatial_axes(c, filter), last);
  attributes["group"] = groups_of(c, input, filter, last);
  const ValueId x = to_channels_second(c, input, last);
  return from_channels_second(c, c.add("Conv", {x, weights_of(c, filter, true)}, std::move(attributes)), last);
}

void forward(Conversion& c) { c.give(convolved(c, "input", c.tensor("filter"))); }

/// What TensorFlow's GPU kernels join: activation(convolution * scale + side input * its scale + bias).
void fused(Conversion& c) {
  const std::string layout = c.text("data_format"), filters = c.text("filter_format"), then = c.text("activation_mode");
  if ((layout != "NHWC" && layout != "NCHW") || (filters != "HWIO" && filters != "OIHW")) {
    c.refuse("layouts of 8-bit vectors");
  }
  if (then != "Relu" && then != "None") c.refuse("the activation " + then);
  ValueId filter = c.tensor("filter");
  if (filters == "OIHW") filter = c.add("Transpose", {filter}, {{"perm", std::vector<int64_t>{2, 3, 1, 0}}});
  const auto scaled = [&](ValueId value, float scale) {
    return scale == 1 ? value : c.add("Mul", {value, c.real_constant(scale, c.type_of(value))});
  };
  ValueId made = scaled(convolved(c, "conv_input", filter), static_cast<float>(c.real("conv_input_scale")));
  const auto side_scale = static_cast<float>(c.real("side_input_scale"));
  if (side_scale != 0) made = c.add("Add", {made, scaled(c.tensor("side_input"), side_scale)});
  ValueId bias = c.tensor("bias");
  if (layout == "NCHW") bias = c.add("Unsqueeze", {bias, c.integers_constant({1, 2})});
  made = c.add("Add", {made, bias});
  c.give(then == "Relu" ? c.add("Relu", {made}) : made);
}

/// A filter [h, w, channels, multiplier] for each channel.
void depthwise(Conversion& c) {
  const ValueId input = c.tensor("input"), filter = c.tensor("filter");
  const bool last = channels_last(c);
  Attributes attributes = window(c, 2, last);
  const int64_t channels = known_size(c, filter, 2, "the number of its channels");
  const int64_t outputs = c.product(channels, known_size(c, filter, 3, "its multiplier"));
  const ValueId turned = c.add("Transpose", {filter}, {{"perm", std::vector<int64_t>{2, 3, 0, 1}}});
  const std::vector<int64_t> shape = {outputs, 1, known_size(c, filter, 0, "its kernel"),
                                      known_size(c, filter, 1, "its kernel")};
  const ValueId weights = c.add("Reshape", {turned, c.integers_constant(shape)});
  attributes["group"] = channels;
  const ValueId x = to_channels_second(c, input, last);
  c.give(from_channels_second(c, c.add("Conv", {x, weights}, std::move(attributes)), last));
}

/// The gradient of a convolution by its input, used as a transposed convolution: `input_sizes` is its result's shape.
/// Of several that fit, padding says which.
void backward(Conversion& c) {
  const ValueId gradient = c.tensor("out_backprop"), filter = c.tensor("filter");
  const bool last = channels_last(c);
  const size_t axes = spatial_axes(c, filter);
  const std::vector<int64_t> sizes = c.integers("input_sizes");
  if (sizes.size() != axes && sizes.size() != axes + 2) c.refuse("its input_sizes do not fit its filter");
  Attributes attributes = window(c, axes, last);
  const auto first = sizes.size() == axes ? 0 : last ? 1 : 2;
  const auto begin = sizes.begin() + first;
  if (c.text("padding") == "EXPLICIT") c.refuse("explicit padding of a transposed convolution");
  const auto strides = std::get<std::vector<int64_t>>(attributes["strides"]);
  const auto dilations = std::get<std::vector<int64_t>>(attributes["dilations"]);
  const bool same = c.text("padding") == "SAME";
  std::vector<int64_t> pads(2 * axes), extra(axes);
  for (size_t axis = 0; axis < axes; ++axis) {
    const auto place = static_cast<int64_t>(axis);
    const int64_t given = known_size(c, gradient, place + (last ? 1 : 2), "a spatial size"), wanted = begin[place];
    const int64_t kernel = c.sum(c.product(known_size(c, filter, place, "its kernel") - 1, dilations[axis]), 1);
    const int64_t whole = c.sum(c.product(given - 1, strides[axis]), kernel);
    if (wanted < 0 || whole < 0) c.refuse("its input_sizes do not fit its filter");
    const int64_t cut = same ? std::max<int64_t>(whole - wanted, 0) : 0;
    pads[axis] = cut / 2, pads[axes + axis] = cut - cut / 2;
    extra[axis] = wanted - (whole - cut);
    if (extra[axis] < 0 || extra[axis] >= strides[axis]) c.refuse("its input_sizes do not fit its strides");
  }
  attributes.erase("auto_pad");
  attributes["pads"] = pads, attributes["output_padding"] = extra;
  // The filter is [kernel..., outputs, inputs] as seen from here.
  const ValueId x = to_channels_second(c, gradient, last);
  const ValueId made = c.add("ConvTranspose", {x, weights_of(c, filter, true)}, std::move(attributes));
  c.give(from_channels_second(c, made, last));
}

/// The bias is added to the channels.
void add_bias(Conversion& c) {
  const ValueId value = c.tensor("value");
  ValueId bias = c.tensor("bias");
  const int rank = c.rank_of(value);
  if (c.text("data_format").starts_with("NC") && rank > 2) {
    std::vector<int64_t> axes(static_cast<size_t>(rank) - 2);
    std::iota(axes.begin(), axes.end(), 1);
    bias = c.add("Unsqueeze", {bias, c.integers_constant(axes)});
  }
  c.give(c.add("Add", {value, bias}));
}

}  // namespace

std::vector<frontend::Row> convolution_rows() {
  return {
      {"Conv2D(T:4 input, T:4 filter, *, strides, padding, explicit_paddings=[], data_format=\"NHWC\", "
       "dilations=[1, 1, 1, 1])", forward},
      {"Conv3D(T:5 input, T:5 filter, *, strides, padding, explicit_paddings=[], data_format=\"NDHWC\", "
       "dilations=[1, 1, 1, 1, 1])", forward},
      {"DepthwiseConv2dNative(T:4 input, T:4 filter, *, strides, padding, explicit_paddings=[], data_format=\"NHWC\", "
       "dilations=[1, 1, 1, 1])", depthwise},
      {"Conv2DBackpropInput(int32:1 input_sizes, T:4 filter, T:4 out_backprop, *, strides, padding, "
       "explicit_paddings=[], data_format=\"NHWC\", dilations=[1, 1, 1, 1])", backward},
      {"Conv3DBackpropInputV2(Tshape:1 input_sizes, T:5 filter, T:5 out_backprop, *, strides, padding, "
       "explicit_paddings=[], data_format=\"NDHWC\", dilations=[1, 1, 1, 1, 1])", backward},
      {"FusedConv2DBiasActivation(T:4 conv_input, T:4 filter, Tbias:1 bias, T side_input, float:0 conv_input_scale, "
       "float:0 side_input_scale, *, strides, padding, explicit_paddings=[], data_format=\"NHWC\", "
       "filter_format=\"HWIO\", activation_mode=\"Relu\", dilations=[1, 1, 1, 1])", fused},
      {"BiasAdd(T value, T:1 bias, *, data_format=\"NHWC\")", add_bias},
      {"BiasAddV1(T value, T:1 bias, *, data_format=\"NHWC\")", add_bias},
  };
}

}  // namespace graft::tensorflow
