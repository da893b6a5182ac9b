// SPDX-License-Identifier: Apache-2.0
// Sliding windows: what convolutions and poolings have in common.
#pragma once

#include <string>
#include <vector>

#include "ops/compose.h"

namespace graft {

/// One spatial axis of a sliding window: output position o and kernel position k meet input position
/// o stride + k dilation - before.
struct Window {
  Size input, kernel, output;
  int64_t stride = 1, dilation = 1;
  Size before, after;    ///< padding
  bool overhang = false; ///< the last window may reach beyond the padding (ceil_mode)
  bool exceeds = false;  ///< the only window may be larger than the padded input
};

/// The windows of a node from its strides, dilations, pads, auto_pad and (when it has them) ceil_mode attributes.
/// `kernel` has one size per spatial axis; `input` is the whole input shape, its first two axes not spatial. `shrinks`:
/// a window that is larger than its padded input, by less than a stride, is one still (in pooling ONNX Runtime and
/// ONNX's shape inference divide towards zero).
std::vector<Window> read_windows(Definition& d, const Shape& input, const std::vector<Size>& kernel,
                                 bool shrinks = false);
/// The sizes of a required kernel_shape attribute, checked against the number of spatial axes.
std::vector<Size> kernel_shape(Definition& d, int spatial);
/// A list attribute with one positive entry per spatial axis; ones when it is absent.
std::vector<int64_t> per_axis(const Definition& d, std::string_view attribute, int spatial);

/// Where a window reads the input along one axis.
Expr window_position(const Window& w, const Expr& output, const Expr& kernel);
/// Whether every position lies inside the input: true, without a test, where no padding is.
Expr windows_inside(const std::vector<Window>& windows, const Indices& positions);
/// The output sizes.
Shape window_outputs(const std::vector<Window>& windows);

/// The attributes that read_windows reads, with their defaults.
std::vector<AttributeSpec> window_attributes(bool dilations, bool ceil_mode);

}  // namespace graft
