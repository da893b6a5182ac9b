// SPDX-License-Identifier: Apache-2.0
#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

/// The same padding at both ends of each axis, as ONNX writes it.
std::vector<int64_t> both_ends(std::vector<int64_t> amount) {
  const std::vector<int64_t> begin = amount;
  amount.insert(amount.end(), begin.begin(), begin.end());
  return amount;
}

/// The bias, unless no_bias says that there is none.
ValueId bias_of(Conversion& c) { return flag(c, "no_bias") ? kNoValue : c.tensor("bias"); }

void convolution(Conversion& c) {
  check_layout(c);
  const size_t axes = integers(c, "kernel").size();
  c.give(c.add("Conv", {c.tensor("data"), c.tensor("weight"), bias_of(c)},
               {{"kernel_shape", integers(c, "kernel")},
                {"strides", per_axis(c, "stride", axes, 1)},
                {"dilations", per_axis(c, "dilate", axes, 1)},
                {"pads", both_ends(per_axis(c, "pad", axes, 0))},
                {"group", integer(c, "num_group")}}));
}

/// Padding and what is added at the end such that the result has the sizes of target_shape.
void aim(Conversion& c, ValueId data, const std::vector<int64_t>& stride, const std::vector<int64_t>& dilate,
         std::vector<int64_t>& pad, std::vector<int64_t>& adj) {
  const std::vector<int64_t> kernel = integers(c, "kernel"), target = per_axis(c, "target_shape", kernel.size(), 0);
  for (size_t axis = 0; axis < kernel.size(); ++axis) {
    const auto size = c.size_of(data, static_cast<int64_t>(axis) + 2).as_constant();
    if (!size) c.refuse("its target_shape, with an input whose size is known only while running");
    if (kernel[axis] < 1 || target[axis] < 0) c.refuse("a kernel or a target_shape below what there can be");
    const int64_t taps = c.product(dilate[axis], kernel[axis] - 1);
    const int64_t whole = c.sum(c.sum(c.product(stride[axis], *size - 1), taps), 1);
    const int64_t surplus = c.sum(whole, -target[axis]);
    if (surplus < 0) c.refuse("its target_shape is larger than what it can make");
    adj[axis] = surplus % 2;
    pad[axis] = surplus / 2 + surplus % 2;
  }
}

void deconvolution(Conversion& c) {
  check_layout(c);
  const ValueId data = c.tensor("data");
  const size_t axes = integers(c, "kernel").size();
  const std::vector<int64_t> stride = per_axis(c, "stride", axes, 1), dilate = per_axis(c, "dilate", axes, 1);
  std::vector<int64_t> pad = per_axis(c, "pad", axes, 0), adj = per_axis(c, "adj", axes, 0);
  if (c.rank_of(data) != static_cast<int>(axes) + 2) c.refuse("its data has another rank than its kernel asks for");
  if (given(c, "target_shape")) aim(c, data, stride, dilate, pad, adj);
  c.give(c.add("ConvTranspose", {data, c.tensor("weight"), bias_of(c)},
               {{"kernel_shape", integers(c, "kernel")},
                {"strides", stride},
                {"dilations", dilate},
                {"pads", both_ends(pad)},
                {"output_padding", adj},
                {"group", integer(c, "num_group")}}));
}

}  // namespace

std::vector<Row> convolution_rows() {
  return {
      {"Convolution Convolution_v1", "data, weight, bias=None, kernel=(), stride=(), dilate=(), pad=(), num_filter=0, "
       "num_group=1, workspace=1024, no_bias=False, cudnn_tune=None, cudnn_off=False, layout=None", convolution},
      {"Deconvolution", "data, weight, bias=None, kernel=(), stride=(), dilate=(), pad=(), adj=(), target_shape=(), "
       "num_filter=0, num_group=1, workspace=512, no_bias=True, cudnn_tune=None, cudnn_off=False, layout=None",
       deconvolution},
  };
}

}  // namespace graft::mxnet
