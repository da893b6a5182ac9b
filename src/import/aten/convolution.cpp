// SPDX-License-Identifier: Apache-2.0
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;

/// Padding of `amount` at both ends of each axis, as ONNX writes it.
std::vector<int64_t> both_ends(std::vector<int64_t> amount) {
  const std::vector<int64_t> begin = amount;
  amount.insert(amount.end(), begin.begin(), begin.end());
  return amount;
}

/// conv1d, conv2d, conv3d and convolution: the number of spatial axes is the weight's.
void convolve(Conversion& c, bool transposed) {
  const ValueId input = c.tensor("input"), weight = c.tensor("weight");
  const auto axes = static_cast<size_t>(c.rank_of(weight) - 2);
  if (c.rank_of(input) != c.rank_of(weight)) c.refuse("an input without a batch");
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
  c.give(c.add(transposed ? "ConvTranspose" : "Conv", {input, weight, c.tensor("bias")}, std::move(attributes)));
}

void convolution(Conversion& c) { convolve(c, c.flag("transposed")); }
void forward(Conversion& c) { convolve(c, false); }
void backward(Conversion& c) { convolve(c, true); }

}  // namespace

std::vector<frontend::Row> convolution_rows() {
  return {
      {"aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, SymInt[1] padding=0, "
       "SymInt[1] dilation=1, SymInt groups=1) -> Tensor", forward},
      {"aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, "
       "SymInt[2] dilation=1, SymInt groups=1) -> Tensor", forward},
      {"aten::conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=1, SymInt[3] padding=0, "
       "SymInt[3] dilation=1, SymInt groups=1) -> Tensor", forward},
      {"aten::conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, "
       "SymInt[1] padding=0, SymInt[1] output_padding=0, SymInt groups=1, SymInt[1] dilation=1) -> Tensor", backward},
      {"aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, "
       "SymInt[2] padding=0, SymInt[2] output_padding=0, SymInt groups=1, SymInt[2] dilation=1) -> Tensor", backward},
      {"aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
       "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor", convolution},
      {"aten::_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
       "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, "
       "bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor", convolution},
  };
}

}  // namespace graft::aten
