// SPDX-License-Identifier: Apache-2.0
#include "import/aten/axes.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;

/// Padding of `amount` at both ends of each axis, as ONNX writes it.
std::vector<int64_t> both_ends(std::vector<int64_t> amount) {
  const std::vector<int64_t> begin = amount;
  amount.insert(amount.end(), begin.begin(), begin.end());
  return amount;
}

/// conv1d, conv2d, conv3d and convolution: the number of spatial axes is the weight's.
void convolve(Conversion& c, bool transposed) {
  const ValueId input = c.tensor("input"), weight = c.tensor("weight");
  const int rank = c.rank_of(weight);
  if (rank < 3) c.refuse("weights without a window");
  const auto axes = static_cast<size_t>(rank - 2);
  Attributes attributes = {{"strides", c.integers("stride", axes)},
                           {"dilations", c.integers("dilation", axes)},
                           {"group", c.integer("groups")}};
  const auto* mode = std::get_if<std::string>(&c.argument("padding").is);
  if (mode) {
    attributes["auto_pad"] = std::string(*mode == "same" ? "SAME_UPPER" : "VALID");
    // torch's `same` puts what is left over at the end, as SAME_UPPER does for stride 1, the only one it allows.
  } else {
    attributes["pads"] = both_ends(c.integers("padding", axes));
  }
  if (transposed) attributes["output_padding"] = c.integers("output_padding", axes);
  const std::string_view op = transposed ? "ConvTranspose" : "Conv";
  c.give(with_batch(c, input, rank - 1, [&](ValueId x) {
    return c.add(op, {x, weight, c.tensor("bias")}, attributes);
  }));
}

void convolution(Conversion& c) { convolve(c, c.flag("transposed")); }
void forward(Conversion& c) { convolve(c, false); }
void backward(Conversion& c) { convolve(c, true); }

// ---- Windows as columns ----

/// The image whose windows the columns are, added up where they overlap.
void columns_to_image(Conversion& c) {
  const ValueId self = c.tensor("self");
  c.give(with_batch(c, self, 2, [&](ValueId x) {
    return c.add("Col2Im", {x, c.shape_tensor("output_size"), c.integers_constant(c.integers("kernel_size", 2))},
                 {{"dilations", c.integers("dilation", 2)},
                  {"pads", both_ends(c.integers("padding", 2))},
                  {"strides", c.integers("stride", 2)}});
  }));
}

/// Where the windows of one axis start and go: [windows, kernel] indices into the padded axis.
ValueId window_positions(Conversion& c, int64_t size, int64_t kernel, int64_t dilation, int64_t stride) {
  const int64_t reach = c.sum(c.product(dilation, c.sum(kernel, -1)), 1);
  if (kernel < 1 || dilation < 1 || stride < 1 || reach > size) c.refuse("windows that the input does not hold");
  const int64_t count = (size - reach) / stride + 1;
  TensorData at = table(c, DType::kInt64, {kernel, count});
  for (int64_t k = 0; k < kernel; ++k) {
    for (int64_t i = 0; i < count; ++i) at.write_integer(k * count + i, i * stride + k * dilation);
  }
  return c.constant(std::move(at));
}

/// [batch, channels * window, windows].
ValueId image_to_columns(Conversion& c, ValueId image) {
  const std::vector<int64_t> kernel = c.integers("kernel_size", 2), padding = c.integers("padding", 2);
  const std::vector<int64_t> dilation = c.integers("dilation", 2), stride = c.integers("stride", 2);
  ValueId x = c.add("Pad", {image, c.integers_constant({0, 0, padding[0], padding[1], 0, 0, padding[0], padding[1]})});
  for (size_t axis = 0; axis < 2; ++axis) {  // [n, c, kh, oh, w], then [n, c, kh, oh, kw, ow]
    const auto place = static_cast<int64_t>(2 + 2 * axis);
    const auto size = c.size_of(x, place).as_constant();
    if (!size) c.refuse("an image whose size is known only while running");
    x = c.add("Gather", {x, window_positions(c, *size, kernel[axis], dilation[axis], stride[axis])}, {{"axis", place}});
  }
  const auto channels = c.size_of(x, 1).as_constant();
  if (!channels) c.refuse("the number of its channels is known only while running");
  const int64_t rows = c.product(*channels, c.product(kernel[0], kernel[1]));
  const ValueId moved = transposed(c, x, {0, 1, 2, 4, 3, 5});
  return c.add("Reshape", {moved, joined(c, {sizes(c, x, 0, 1), c.integers_constant({rows, -1})})});
}

void unfold(Conversion& c) {
  c.give(with_batch(c, c.tensor("self"), 3, [&](ValueId x) { return image_to_columns(c, x); }));
}

/// A forward convolution of so many axes, with paddings as numbers and by name.
void add_forward(std::vector<Row>& rows, const std::string& n) {
  const std::string begin = "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[" + n + "] stride=1, ";
  const std::string end = "SymInt[" + n + "] dilation=1, SymInt groups=1) -> Tensor";
  rows.push_back({"aten::conv" + n + "d" + begin + "SymInt[" + n + "] padding=0, " + end, forward});
  rows.push_back({"aten::conv" + n + "d.padding" + begin + "str padding=\"valid\", " + end, forward});
}

/// One that spreads each input over a window.
void add_backward(std::vector<Row>& rows, const std::string& name, const std::string& n) {
  const std::string list = "SymInt[" + n + "] ";
  rows.push_back({"aten::" + name + "(Tensor input, Tensor weight, Tensor? bias=None, " + list + "stride=1, " + list +
                      "padding=0, " + list + "output_padding=0, SymInt groups=1, " + list + "dilation=1) -> Tensor",
                  backward});
}

}  // namespace

std::vector<Row> convolution_rows() {
  std::vector<Row> rows = {
      {"aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
       "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor", convolution},
      {"aten::_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
       "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, "
       "bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor", convolution},
      {"aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, "
       "int[2] stride) -> Tensor", columns_to_image},
      {"aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
       unfold},
  };
  for (const char* n : {"1", "2", "3"}) add_forward(rows, n);
  add_backward(rows, "conv_transpose1d", "1");
  add_backward(rows, "conv_transpose2d.input", "2");
  add_backward(rows, "conv_transpose3d.input", "3");
  return rows;
}

}  // namespace graft::aten
