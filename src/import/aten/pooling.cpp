// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;

/// max_pool2d and avg_pool2d: an empty stride is the kernel's.
Attributes window(Conversion& c, size_t axes) {
  const std::vector<int64_t> kernel = c.integers("kernel_size", axes), half = c.integers("padding", axes);
  std::vector<int64_t> stride = c.integers("stride"), pads = half;
  if (stride.empty()) stride = kernel;
  if (stride.size() == 1) stride.assign(axes, stride[0]);
  pads.insert(pads.end(), half.begin(), half.end());
  return {{"kernel_shape", kernel}, {"strides", stride}, {"pads", pads}, {"ceil_mode", int64_t{c.flag("ceil_mode")}}};
}

void max_pool2d(Conversion& c) {
  Attributes attributes = window(c, 2);
  attributes["dilations"] = c.integers("dilation", 2);
  c.give(c.add("MaxPool", {c.tensor("self")}, std::move(attributes)));
}

void avg_pool2d(Conversion& c) {
  if (c.has("divisor_override")) c.refuse("a divisor of the caller's own");
  Attributes attributes = window(c, 2);
  attributes["count_include_pad"] = int64_t{c.flag("count_include_pad")};
  c.give(c.add("AveragePool", {c.tensor("self")}, std::move(attributes)));
}

/// Windows of equal size where the output divides the input; the whole map for output 1.
void adaptive_avg_pool2d(Conversion& c) {
  const ValueId self = c.tensor("self");
  const Shape shape = c.shape_of(self);
  const std::vector<int64_t> sizes = c.integers("output_size", 2);
  if (shape.size() != 4) c.refuse("an input without a batch");
  if (sizes[0] == 1 && sizes[1] == 1) return c.give(c.add("GlobalAveragePool", {self}));
  std::vector<int64_t> kernel;
  for (size_t axis = 0; axis < 2; ++axis) {
    const auto size = shape[axis + 2].as_constant();
    if (!size || sizes[axis] <= 0 || *size % sizes[axis] != 0) {
      c.refuse("its output does not divide an input of known size, so that its windows differ in size");
    }
    kernel.push_back(*size / sizes[axis]);
  }
  c.give(c.add("AveragePool", {self}, {{"kernel_shape", kernel}, {"strides", kernel}}));
}

}  // namespace

std::vector<frontend::Row> pooling_rows() {
  return {
      {"aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, "
       "bool ceil_mode=False) -> Tensor", max_pool2d},
      {"aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, "
       "int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)", max_pool2d},  // the indices are rarely used
      {"aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, "
       "bool count_include_pad=True, int? divisor_override=None) -> Tensor", avg_pool2d},
      {"aten::adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor", adaptive_avg_pool2d},
  };
}

}  // namespace graft::aten
