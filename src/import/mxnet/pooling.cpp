// SPDX-License-Identifier: Apache-2.0
#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

#include <functional>
#include <numeric>

#include <fmt/format.h>

namespace graft::mxnet {
namespace {

using frontend::Conversion;

/// The whole map as one window.
void pool_all(Conversion& c, ValueId data, const std::string& kind) {
  if (kind == "max") return c.give(c.add("GlobalMaxPool", {data}));
  if (kind == "avg") return c.give(c.add("GlobalAveragePool", {data}));
  if (kind == "lp") return c.give(c.add("GlobalLpPool", {data}, {{"p", integer(c, "p_value")}}));
  std::vector<int64_t> axes(static_cast<size_t>(c.rank_of(data) - 2));
  std::iota(axes.begin(), axes.end(), 2);
  c.give(c.add("ReduceSum", {data, c.integers_constant(axes)}, {{"keepdims", int64_t{1}}}));
}

struct Window {
  std::vector<int64_t> kernel, stride, pad;
};

/// Refuses numbers that no window of a map has, before anything is computed of them.
void check_window(const Conversion& c, int64_t kernel, int64_t stride, int64_t pad) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const auto fits = [](int64_t number, int64_t least) { return number >= least && number < kMost; };
  if (!fits(kernel, 1) || !fits(stride, 1) || !fits(pad, 0)) {
    c.refuse(fmt::format("a window of {} with stride {} and padding {}", kernel, stride, pad));
  }
}

/// MXNet's `full` keeps a last window that lies in the padding alone, which ONNX's ceil_mode drops.
void check_last_windows(Conversion& c, ValueId data, const Window& window) {
  for (size_t axis = 0; axis < window.kernel.size(); ++axis) {
    check_window(c, window.kernel[axis], window.stride[axis], window.pad[axis]);
    const auto size = c.size_of(data, static_cast<int64_t>(axis) + 2).as_constant();
    if (!size) {
      if (window.stride[axis] <= window.kernel[axis] - window.pad[axis]) continue;  // then no window begins behind
      c.refuse("the convention 'full', with an input whose size is known only while running");
    }
    const int64_t room = c.sum(*size, 2 * window.pad[axis] - window.kernel[axis]);
    const int64_t last = c.sum(room, window.stride[axis] - 1) / window.stride[axis];
    if (c.product(last, window.stride[axis]) >= c.sum(*size, window.pad[axis])) {
      c.refuse("a window that lies in the padding alone");
    }
  }
}

void pooling(Conversion& c) {
  check_layout(c);
  const ValueId data = c.tensor("data");
  const std::string kind = word(c, "pool_type"), convention = word(c, "pooling_convention");
  if (c.rank_of(data) < 3) c.refuse("an input without axes to pool over");
  if (flag(c, "global_pool")) return pool_all(c, data, kind);
  const auto axes = static_cast<size_t>(c.rank_of(data) - 2);
  const Window window = {per_axis(c, "kernel", axes, 1), per_axis(c, "stride", axes, 1), per_axis(c, "pad", axes, 0)};
  if (convention != "valid" && convention != "full") c.refuse(fmt::format("the convention '{}'", convention));
  if (convention == "full") check_last_windows(c, data, window);
  std::vector<int64_t> pads = window.pad;
  pads.insert(pads.end(), window.pad.begin(), window.pad.end());
  Attributes attributes = {{"kernel_shape", window.kernel},
                           {"strides", window.stride},
                           {"pads", pads},
                           {"ceil_mode", int64_t{convention == "full"}}};
  if (kind == "max") return c.give(c.add("MaxPool", {data}, std::move(attributes)));
  if (kind == "lp") {
    attributes["p"] = integer(c, "p_value");
    return c.give(c.add("LpPool", {data}, std::move(attributes)));
  }
  const bool whole = kind == "sum" || c.argument("count_include_pad").is_none() || flag(c, "count_include_pad");
  attributes["count_include_pad"] = int64_t{whole};
  if (kind == "avg") return c.give(c.add("AveragePool", {data}, std::move(attributes)));
  if (kind != "sum" || convention == "full") c.refuse(fmt::format("pooling by '{}'", kind));
  const auto elements = std::accumulate(window.kernel.begin(), window.kernel.end(), int64_t{1},
                                        [&](int64_t a, int64_t b) { return c.product(a, b); });
  const ValueId mean = c.add("AveragePool", {data}, std::move(attributes));
  c.give(c.add("Mul", {mean, c.real_constant(static_cast<double>(elements), c.type_of(data))}));
}

/// Windows of equal size where the output divides the input.
void adaptive_average(Conversion& c) {
  const ValueId data = c.tensor("data");
  if (c.rank_of(data) != 4) c.refuse("an input that is no batch of maps");
  const std::vector<int64_t> sizes = given(c, "output_size") ? integers(c, "output_size") : std::vector<int64_t>{1};
  if (sizes.size() > 2) c.refuse("an output of more than two axes");
  std::vector<int64_t> kernel;
  for (size_t axis = 0; axis < 2; ++axis) {
    const int64_t wanted = sizes[std::min(axis, sizes.size() - 1)];
    const auto size = c.size_of(data, static_cast<int64_t>(axis) + 2).as_constant();
    if (!size || wanted <= 0 || *size % wanted != 0) {
      c.refuse("its output does not divide an input of known size, so that its windows differ in size");
    }
    kernel.push_back(*size / wanted);
  }
  c.give(c.add("AveragePool", {data}, {{"kernel_shape", kernel}, {"strides", kernel}}));
}

}  // namespace

std::vector<Row> pooling_rows() {
  return {
      {"Pooling Pooling_v1", "data, kernel=(), pool_type=max, global_pool=False, cudnn_off=False, "
       "pooling_convention=valid, stride=(), pad=(), p_value=None, count_include_pad=None, layout=None", pooling},
      {"_contrib_AdaptiveAvgPooling2D", "data, output_size=()", adaptive_average},
  };
}

}  // namespace graft::mxnet
