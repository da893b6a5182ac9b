// SPDX-License-Identifier: Apache-2.0
// Convolutions of any rank: one reduction over input channels and kernel positions.
#include "ops/samples.h"
#include "ops/window.h"

namespace graft {
namespace {

using namespace samples;

Indices tail(const Indices& i, size_t begin) { return {i.begin() + static_cast<std::ptrdiff_t>(begin), i.end()}; }

/// A convolution's tensors and sizes, shared by the float and the quantized operators.
struct Convolution {
  Tensor x, w;
  std::vector<Window> windows;
  int64_t groups = 1;
  Size group_outputs, group_inputs;
};

Convolution read_convolution(Definition& d, int weights) {
  Convolution c;
  c.x = d.in(0), c.w = d.in(weights);
  const int spatial = c.x.rank() - 2;
  if (spatial < 1 || c.w.rank() != c.x.rank()) d.reject("its input and weights should have as many axes, at least 3");
  const std::vector<Size> kernel(c.w.shape().begin() + 2, c.w.shape().end());
  if (d.has("kernel_shape")) {
    const std::vector<Size> stated = kernel_shape(d, spatial);
    for (int i = 0; i < spatial; ++i) d.require_equal(stated[i], kernel[i], "kernel_shape differs from the weights");
  }
  c.windows = read_windows(d, c.x.shape(), kernel);
  c.groups = d.integer("group");
  if (c.groups < 1) d.reject("its attribute 'group' should be positive");
  c.group_inputs = c.w.size(1);
  d.require_equal(c.group_inputs * Size(c.groups), c.x.size(1), "its channels do not fit its weights");
  d.require_equal(mod(c.w.size(0), c.groups), 0, "'group' does not divide the output channels");
  c.group_outputs = floor_div(c.w.size(0), c.groups);
  return c;
}

using Read = std::function<Expr(const Tensor&, const Indices&)>;

/// The sum over [ic, kernel...] at the input channel block `group` and output channel `oc`; `x` and `w` read elements,
/// 0 standing for padding.
Expr product_at(const Convolution& c, const Indices& i, size_t first_spatial, const Expr& group, const Expr& oc,
                const Indices& k, const Read& read_x, const Read& read_w) {
  Indices at = {i[0], group ? group * make_size(c.group_inputs) + k[0] : k[0]}, weight = {oc, k[0]};
  for (size_t s = 0; s < c.windows.size(); ++s) {
    at.push_back(window_position(c.windows[s], i[first_spatial + s], k[s + 1]));
    weight.push_back(k[s + 1]);
  }
  const Expr value = read_x(c.x, at);
  return select(windows_inside(c.windows, tail(at, 2)), value, make_integer(value->type, 0)) * read_w(c.w, weight);
}

/// The sums as [n, oc, spatial...], of the reduction's type. Groups of several channels are an axis of their own, so
/// that the accesses stay affine.
Tensor convolved(Definition& d, const Convolution& c, const Read& read_x, const Read& read_w) {
  const Shape spatial = window_outputs(c.windows);
  Shape reduced = {c.group_inputs};
  for (const Window& w : c.windows) reduced.push_back(w.kernel);
  const bool depthwise = c.group_outputs.is(1);
  if (c.groups == 1 || depthwise) {
    Shape shape = {c.x.size(0), c.w.size(0)};
    shape.insert(shape.end(), spatial.begin(), spatial.end());
    return d.reduce("sum", Intrinsic::kAdd, shape, reduced, [&](const Indices& i, const Indices& k) {
      return product_at(c, i, 2, c.groups == 1 ? Expr() : i[1], i[1], k, read_x, read_w);
    });
  }
  Shape grouped = {c.x.size(0), c.groups, c.group_outputs};
  grouped.insert(grouped.end(), spatial.begin(), spatial.end());
  const Tensor sum = d.reduce("sum", Intrinsic::kAdd, grouped, reduced, [&](const Indices& i, const Indices& k) {
    return product_at(c, i, 3, i[1], i[1] * make_size(c.group_outputs) + i[2], k, read_x, read_w);
  });
  Shape shape = {c.x.size(0), c.w.size(0)};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  return reshape(d, "merged", sum, shape);
}

Expr read_wide(const Tensor& t, const Indices& at) { return t.wide(at); }

/// Adds a bias per channel (input `bias`, when given) and rounds to `type`.
void finish(Definition& d, const Tensor& sum, int bias, DType type) {
  if (!d.has_input(bias)) return d.out(0, stored_as(d, "y", sum, type));
  const Tensor b = d.in(bias);
  d.require_shape(b, {sum.size(1)}, "its bias is not one per output channel");
  d.out(0, d.compute("y", type, Shape(sum.shape()), [&](const Indices& i) {
    return sum(i) + make_cast(sum.type(), b.wide({i[1]}));
  }));
}

void define_conv(Definition& d) {
  const Convolution c = read_convolution(d, 1);
  finish(d, convolved(d, c, read_wide, read_wide), 2, c.x.type());
}

/// x - zero point in i32, of floats in f32; the zero point is input `zero` when given, a scalar or one per element of
/// axis 0 of `of`.
Read less_zero_point(Definition& d, int zero, const Tensor& of) {
  if (!d.has_input(zero)) {
    return [](const Tensor& t, const Indices& at) {
      return make_cast(is_float(t.type()) ? DType::kFloat32 : DType::kInt32, t(at));
    };
  }
  const Tensor point = d.in(zero);
  d.require_fits(point, {of.size(0)}, "its zero point does not fit");
  return [&d, point](const Tensor& t, const Indices& at) {
    const Expr offset = d.at(point, {at[0]});
    return make_cast(DType::kInt32, t(at)) - make_cast(DType::kInt32, offset);
  };
}

/// ConvInteger, and ConvFloat8, which has no zero points.
void define_conv_of_bytes(Definition& d) {
  const Convolution c = read_convolution(d, 1);
  if (d.has_input(2)) d.require_equal(element_count(d.input_shape(2)), 1, "x_zero_point should be a scalar");
  d.out(0, convolved(d, c, less_zero_point(d, 2, c.x), less_zero_point(d, 3, c.w)));
}

void define_qlinear_conv(Definition& d) {
  const Convolution c = read_convolution(d, 3);
  d.require_equal(element_count(d.input_shape(2)), 1, "x_zero_point should be a scalar");
  const Tensor sum = convolved(d, c, less_zero_point(d, 2, c.x), less_zero_point(d, 5, c.w));
  const Tensor x_scale = d.in(1), w_scale = d.in(4), y_scale = d.in(6), y_zero = d.in(7);
  const DType type = y_zero.type();
  for (const Tensor& t : {x_scale, w_scale, y_scale, y_zero}) {
    d.require_fits(t, {sum.size(1)}, "a scale or zero point is not one or one per output channel");
  }
  if (d.has_input(8)) d.require_shape(d.in(8), {sum.size(1)}, "its bias is not one per output channel");
  d.out(0, d.compute("y", type, Shape(sum.shape()), [&](const Indices& i) {
    Expr total = sum(i);
    if (d.has_input(8)) total = total + d.in(8)({i[1]});
    const Indices channel = {i[1]};
    const Expr scale = d.at(x_scale, channel) * d.at(w_scale, channel) / d.at(y_scale, channel);
    const Expr rounded = round(make_cast(scale->type, total) * scale);
    const Expr shifted = rounded + make_cast(scale->type, d.at(y_zero, channel));
    const bool is_signed = type == DType::kInt8;
    return min(max(shifted, make_constant(scale->type, is_signed ? -128 : 0)),
               make_constant(scale->type, is_signed ? 127 : 255));
  }));
}

/// The padding and output size of each axis of a transposed convolution.
std::vector<Window> transposed_windows(Definition& d, const Tensor& x, const Tensor& w) {
  const int spatial = x.rank() - 2;
  const std::vector<int64_t> strides = per_axis(d, "strides", spatial), dilations = per_axis(d, "dilations", spatial);
  const std::string automatic = d.text("auto_pad");
  std::vector<int64_t> extra(spatial, 0), pads(2 * spatial, 0);
  if (d.has("output_padding")) extra = d.integers("output_padding");
  if (d.has("pads") && automatic == "NOTSET") pads = d.integers("pads");
  if (static_cast<int>(extra.size()) != spatial || static_cast<int>(pads.size()) != 2 * spatial) {
    d.reject("its pads or output_padding do not fit its axes");
  }
  std::vector<int64_t> stated;
  if (d.has("output_shape")) stated = d.integers("output_shape");
  std::vector<Window> windows;
  for (int i = 0; i < spatial; ++i) {
    Window v{.input = x.size(i + 2), .kernel = w.size(i + 2), .output = 0, .stride = strides[i],
             .dilation = dilations[i], .before = pads[i], .after = pads[i + spatial], .overhang = false};
    const Size full = Size(v.stride) * (v.input - Size(1)) + Size(extra[i]) + (v.kernel - Size(1)) * Size(v.dilation) +
                      Size(1);
    const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
    if (!stated.empty() || same) {
      const size_t from_end = static_cast<size_t>(spatial - i);
      if (!stated.empty() && stated.size() < from_end) d.reject("its output_shape does not fit its axes");
      v.output = stated.empty() ? v.input * Size(v.stride) : Size(stated[stated.size() - from_end]);
      const Size total = at_least_zero(full - v.output), half = floor_div(total, 2);
      v.before = automatic == "SAME_UPPER" ? half : total - half;
      v.after = total - v.before;
    } else {
      v.output = full - v.before - v.after;
    }
    d.require_at_least(v.output, 0, "its padding is larger than its output");
    windows.push_back(v);
  }
  return windows;
}

/// Gathers instead of scattering: output o takes input (o + before - k dilation) / stride where that is whole.
void define_conv_transpose(Definition& d) {
  const Tensor x = d.in(0), w = d.in(1);
  if (x.rank() < 3 || w.rank() != x.rank()) d.reject("its input and weights should have as many axes, at least 3");
  const int64_t groups = d.integer("group");
  if (groups < 1) d.reject("its attribute 'group' should be positive");
  d.require_equal(w.size(0), x.size(1), "its channels do not fit its weights");
  d.require_equal(mod(x.size(1), groups), 0, "'group' does not divide the channels");
  const std::vector<Window> windows = transposed_windows(d, x, w);
  const Size inputs = floor_div(x.size(1), groups), outputs = w.size(1);
  Shape shape = {x.size(0), outputs * Size(groups)}, reduced = {inputs};
  for (const Window& v : windows) shape.push_back(v.output), reduced.push_back(v.kernel);
  const Tensor sum = d.reduce("sum", Intrinsic::kAdd, shape, reduced, [&](const Indices& i, const Indices& k) {
    const Expr group = groups == 1 ? make_index(0) : floor_div(i[1], make_size(outputs));
    const Expr channel = group * make_size(inputs) + k[0];
    Indices at = {i[0], channel}, weight = {channel, groups == 1 ? i[1] : mod(i[1], make_size(outputs))};
    Expr inside = make_integer(DType::kBool, 1);
    for (size_t s = 0; s < windows.size(); ++s) {
      const Window& v = windows[s];
      const Expr reach = i[s + 2] + make_size(v.before) - k[s + 1] * make_index(v.dilation);
      const Expr stride = make_index(v.stride), position = floor_div(reach, stride);
      if (v.stride != 1) inside = inside && eq(mod(reach, stride), make_index(0));
      inside = inside && ge(position, make_index(0)) && lt(position, make_size(v.input));
      at.push_back(position);
      weight.push_back(k[s + 1]);
    }
    const Expr value = x.wide(at);
    return select(inside, value, make_integer(value->type, 0)) * w.wide(weight);
  });
  finish(d, sum, 2, x.type());
}

Attributes with(std::initializer_list<std::pair<const std::string, std::vector<int64_t>>> lists, int64_t group = 1) {
  Attributes attributes;
  for (const auto& [name, values] : lists) attributes[name] = values;
  if (group != 1) attributes["group"] = group;
  return attributes;
}

std::vector<Sample> conv_samples() {
  return {{.name = "no_padding", .inputs = {f32({1, 3, 7, 9}), f32({5, 3, 3, 3})}},
          {.name = "padding_and_bias", .inputs = {f32({2, 3, 7, 6}), f32({4, 3, 3, 3}), f32({4})},
           .attributes = with({{"pads", {1, 1, 1, 1}}})},
          {.name = "strides_and_uneven_pads", .inputs = {f32({1, 2, 9, 8}), f32({3, 2, 3, 2})},
           .attributes = with({{"strides", {2, 3}}, {"pads", {0, 1, 2, 0}}})},
          {.name = "dilations", .inputs = {f32({1, 2, 9, 9}), f32({3, 2, 3, 3})},
           .attributes = with({{"dilations", {2, 3}}, {"pads", {2, 3, 2, 3}}})},
          {.name = "pointwise", .inputs = {f32({1, 17, 5, 5}), f32({9, 17, 1, 1}), f32({9})}},
          {.name = "depthwise", .inputs = {f32({1, 6, 5, 7}), f32({6, 1, 3, 3}), f32({6})},
           .attributes = with({{"pads", {1, 1, 1, 1}}}, 6)},
          {.name = "groups", .inputs = {f32({2, 6, 5, 5}), f32({4, 3, 3, 3})}, .attributes = with({}, 2)},
          {.name = "one_spatial_axis", .inputs = {f32({2, 3, 11}), f32({4, 3, 5})},
           .attributes = with({{"strides", {2}}})},
          {.name = "three_spatial_axes", .inputs = {f32({1, 2, 4, 5, 3}), f32({3, 2, 2, 3, 2})}},
          {.name = "same_padding", .inputs = {f32({1, 2, 7, 8}), f32({3, 2, 4, 4})},
           .attributes = {{"auto_pad", std::string("SAME_LOWER")}, {"strides", std::vector<int64_t>{2, 2}}}},
          {.name = "half_precision", .inputs = {f16({1, 5, 6, 6}), f16({4, 5, 3, 3})}, .tolerance = 4e-3}};
}
std::vector<Sample> conv_transpose_samples() {
  return {{.name = "no_strides", .inputs = {f32({1, 2, 4, 5}), f32({2, 3, 3, 3})}},
          {.name = "strides_pads_and_bias", .inputs = {f32({1, 2, 4, 5}), f32({2, 3, 3, 3}), f32({3})},
           .attributes = with({{"strides", {2, 3}}, {"pads", {1, 0, 1, 2}}, {"output_padding", {1, 1}}})},
          {.name = "groups", .inputs = {f32({1, 4, 5}), f32({4, 2, 3})}, .attributes = with({{"strides", {2}}}, 2)},
          {.name = "dilations", .inputs = {f32({1, 1, 4, 4}), f32({1, 2, 2, 2})},
           .attributes = with({{"dilations", {2, 2}}})},
          {.name = "output_shape", .inputs = {f32({1, 2, 3, 3}), f32({2, 2, 3, 3})},
           .attributes = with({{"strides", {3, 2}}, {"output_shape", {10, 8}}})}};
}
SampleInput bytes(Dims shape) { return of(DType::kUint8, std::move(shape), 0, 255); }
std::vector<Sample> conv_integer_samples() {
  return {{.name = "no_zero_points", .inputs = {bytes({1, 2, 5, 5}), bytes({3, 2, 3, 3})}},
          {.name = "zero_point_and_padding",
           .inputs = {bytes({1, 2, 5, 5}), bytes({3, 2, 3, 3}), scalar(DType::kUint8, 7)},
           .attributes = with({{"pads", {1, 1, 1, 1}}})}};
}
std::vector<Sample> conv_float8_samples() {
  const auto floats = [](Dims shape) { return of(DType::kFloat8E4M3FN, std::move(shape), -30, 30); };
  constexpr double kTolerance = 2e-3;  // as products of matrices
  return {{.name = "padding", .inputs = {floats({1, 2, 5, 5}), floats({3, 2, 3, 3})},
           .attributes = with({{"pads", {1, 1, 1, 1}}}), .tolerance = kTolerance},
          {.name = "many_channels", .inputs = {floats({1, 64, 6, 6}), floats({32, 64, 3, 3})},
           .attributes = with({{"strides", {2, 2}}}), .tolerance = kTolerance},
          {.name = "e5m2", .inputs = {of(DType::kFloat8E5M2, {2, 4, 9}, -30, 30), floats({6, 4, 1})},
           .tolerance = kTolerance}};
}
std::vector<Sample> qlinear_conv_samples() {
  return {{.name = "unsigned_with_padding",
           .inputs = {bytes({1, 2, 5, 5}), scalar(DType::kFloat32, 0.02), scalar(DType::kUint8, 120),
                      bytes({3, 2, 3, 3}), scalar(DType::kFloat32, 0.03), scalar(DType::kUint8, 130),
                      scalar(DType::kFloat32, 0.2), scalar(DType::kUint8, 100)},
           .attributes = with({{"pads", {1, 1, 1, 1}}})},
          {.name = "signed_with_bias",
           .inputs = {of(DType::kInt8, {1, 2, 5}, -128, 127), scalar(DType::kFloat32, 0.02), scalar(DType::kInt8, 3),
                      of(DType::kInt8, {3, 2, 3}, -128, 127), scalar(DType::kFloat32, 0.03), scalar(DType::kInt8, 0),
                      scalar(DType::kFloat32, 0.2), scalar(DType::kInt8, -5), of(DType::kInt32, {3}, -900, 900)}}};
}

OpDef row(std::string_view name, int since, std::vector<std::string_view> inputs, void (*define)(Definition&),
          std::vector<Sample> (*samples)(), std::string_view doc) {
  OpDef op{.domain = "", .name = name, .since = since, .inputs = std::move(inputs), .outputs = {"y"},
           .attributes = window_attributes(true, false), .define = define, .samples = samples, .doc = doc};
  op.attributes.push_back({"group", int64_t{1}});
  return op;
}

}  // namespace

std::vector<OpDef> convolution_ops() {
  std::vector<OpDef> ops = {
      row("Conv", 22, {"x", "w", "b?"}, define_conv, conv_samples, "The sum of a window of the input times weights."),
      row("ConvInteger", 10, {"x", "w", "x_zero_point?", "w_zero_point?"}, define_conv_of_bytes, conv_integer_samples,
          "Conv of integers less their zero points, summed in i32."),
      row("QLinearConv", 10,
          {"x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point", "b?"},
          define_qlinear_conv, qlinear_conv_samples, "Conv of quantized tensors, quantized again."),
      row("ConvTranspose", 22, {"x", "w", "b?"}, define_conv_transpose, conv_transpose_samples,
          "The adjoint of Conv: each input spreads over a window of the output."),
  };
  ops.back().attributes.push_back({"output_padding", {}, true});
  ops.back().attributes.push_back({"output_shape", {}, true});
  ops.push_back(row("ConvFloat8", 1, {"x", "w"}, define_conv_of_bytes, conv_float8_samples,
                    "Conv of floats of 8 bits, in f32."));
  ops.back().domain = "graft";
  return ops;
}

}  // namespace graft
