// SPDX-License-Identifier: Apache-2.0
#include "ops/window.h"

#include <algorithm>

namespace graft {
namespace {

bool lists(const Definition& d, std::string_view attribute) {
  const auto& node = d.node().attributes;
  return node.find(attribute) != node.end();
}

/// Splits the padding that makes the output ceil(input / stride) large.
void pad_same(Window& w, bool extra_after) {
  const Size reach = (w.kernel - Size(1)) * Size(w.dilation) + Size(1);
  const Size total = at_least_zero((ceil_div(w.input, w.stride) - Size(1)) * Size(w.stride) + reach - w.input);
  const Size half = floor_div(total, 2);
  w.before = extra_after ? half : total - half;
  w.after = total - w.before;
}

/// What is left of the padded input behind a first window.
Size room_behind(const Window& w) {
  return w.input + w.before + w.after - (w.kernel - Size(1)) * Size(w.dilation) - Size(1);
}

/// Whether a window may be larger than a padded input that is not empty.
bool may_exceed(const Window& w) {
  const Size room = room_behind(w);
  const Size least = w.input.is_constant() ? room : room - w.input + Size(1);
  return !least.is_constant() || least.constant() < 0;
}

/// How many windows fit; with ceil_mode the last one may overhang, but not start beyond the input. Where a window may
/// exceed the input, by less than a stride, there is one.
Size window_count(const Window& w) {
  const Size room = room_behind(w);
  if (!w.overhang) {
    const Size whole = floor_div(room, w.stride) + Size(1);
    return w.exceeds ? max(whole, min(min(1, w.input), ceil_div(room, w.stride) + Size(1))) : whole;
  }
  const Size count = ceil_div(room, w.stride) + Size(1);
  const Size last_start = (count - Size(1)) * Size(w.stride);
  const Size beyond = last_start - w.input - w.before + Size(1);
  return count - min(1, max(0, beyond));
}

}  // namespace

std::vector<int64_t> per_axis(const Definition& d, std::string_view attribute, int spatial) {
  if (!lists(d, attribute)) return std::vector<int64_t>(spatial, 1);
  std::vector<int64_t> values = d.integers(attribute);
  if (static_cast<int>(values.size()) != spatial) {
    d.reject("its attribute '" + std::string(attribute) + "' should have one entry per spatial axis");
  }
  for (const int64_t value : values) {
    if (value < 1) d.reject("its attribute '" + std::string(attribute) + "' should be positive");
  }
  return values;
}

std::vector<Size> kernel_shape(Definition& d, int spatial) {
  if (!lists(d, "kernel_shape")) d.reject("its attribute 'kernel_shape' is missing");
  std::vector<Size> kernel;
  for (const int64_t size : per_axis(d, "kernel_shape", spatial)) kernel.push_back(size);
  return kernel;
}

std::vector<Window> read_windows(Definition& d, const Shape& input, const std::vector<Size>& kernel, bool shrinks) {
  const int spatial = static_cast<int>(input.size()) - 2;
  if (spatial < 1 || static_cast<int>(kernel.size()) != spatial) d.reject("its kernel does not fit its input's axes");
  const std::vector<int64_t> strides = per_axis(d, "strides", spatial), dilations = per_axis(d, "dilations", spatial);
  const std::string automatic = d.text("auto_pad");
  std::vector<int64_t> pads(2 * spatial, 0);
  if (lists(d, "pads") && automatic == "NOTSET") pads = d.integers("pads");
  if (static_cast<int>(pads.size()) != 2 * spatial) d.reject("its pads should be two per spatial axis");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (!same && automatic != "NOTSET" && automatic != "VALID") d.reject("its auto_pad is " + automatic);
  std::vector<Window> windows;
  for (int i = 0; i < spatial; ++i) {
    Window w{.input = input[i + 2], .kernel = kernel[i], .output = 0, .stride = strides[i], .dilation = dilations[i],
             .before = pads[i], .after = pads[i + spatial], .overhang = false};
    if (pads[i] < 0 || pads[i + spatial] < 0) d.reject("its pads should not be negative");
    if (same) {
      pad_same(w, automatic == "SAME_UPPER");
      w.output = ceil_div(w.input, w.stride);
    } else {
      w.overhang = lists(d, "ceil_mode") && d.integer("ceil_mode") != 0;
      w.exceeds = shrinks && automatic == "NOTSET" && !w.overhang && may_exceed(w);
      w.output = window_count(w);
    }
    d.require_at_least(w.output, 0, "its window is larger than its padded input");
    windows.push_back(w);
  }
  return windows;
}

Expr window_position(const Window& w, const Expr& output, const Expr& kernel) {
  return output * make_index(w.stride) + kernel * make_index(w.dilation) - make_size(w.before);
}

Expr windows_inside(const std::vector<Window>& windows, const Indices& positions) {
  Expr inside = make_integer(DType::kBool, 1);
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& w = windows[i];
    if (!w.before.is(0)) inside = inside && ge(positions[i], make_index(0));
    if (!w.after.is(0) || w.overhang || w.exceeds) inside = inside && lt(positions[i], make_size(w.input));
  }
  return inside;
}

Shape window_outputs(const std::vector<Window>& windows) {
  Shape shape;
  for (const Window& w : windows) shape.push_back(w.output);
  return shape;
}

std::vector<AttributeSpec> window_attributes(bool dilations, bool ceil_mode) {
  std::vector<AttributeSpec> attributes = {{"auto_pad", std::string("NOTSET")}, {"kernel_shape", {}, true},
                                           {"pads", {}, true}, {"strides", {}, true}};
  if (dilations) attributes.push_back({"dilations", {}, true});
  if (ceil_mode) attributes.push_back({"ceil_mode", int64_t{0}});
  return attributes;
}

}  // namespace graft
