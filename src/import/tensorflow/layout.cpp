// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/layout.h"

#include <numeric>

#include <fmt/format.h>

namespace graft::tensorflow {

using frontend::Conversion;

bool channels_last(const Conversion& c) {
  const std::string format = c.text("data_format");
  const bool last = format == "NHWC" || format == "NDHWC";
  if (!last && format != "NCHW" && format != "NCDHW") c.refuse(fmt::format("the layout {}", format));
  return last;
}

size_t spatial_axes(const Conversion& c, ValueId value) {
  const int rank = c.rank_of(value);
  if (rank < 3) c.refuse(fmt::format("an operand of {} axes, none of which is spatial", rank));
  return static_cast<size_t>(rank) - 2;
}

ValueId to_channels_second(Conversion& c, ValueId value, bool last) {
  if (!last) return value;
  spatial_axes(c, value);
  std::vector<int64_t> order(static_cast<size_t>(c.rank_of(value)));
  std::iota(order.begin(), order.end(), -1);
  order[0] = 0, order[1] = static_cast<int64_t>(order.size()) - 1;
  return c.add("Transpose", {value}, {{"perm", order}});
}

ValueId from_channels_second(Conversion& c, ValueId value, bool last) {
  if (!last) return value;
  spatial_axes(c, value);
  std::vector<int64_t> order(static_cast<size_t>(c.rank_of(value)));
  std::iota(order.begin(), order.end(), 1);
  order.front() = 0, order.back() = 1;
  return c.add("Transpose", {value}, {{"perm", order}});
}

std::vector<int64_t> spatial(const Conversion& c, std::string_view attribute, size_t axes, bool last) {
  const std::vector<int64_t> all = c.integers(attribute);
  if (all.size() != axes + 2) c.refuse(fmt::format("its attribute '{}' has {} elements", attribute, all.size()));
  const size_t first = last ? 1 : 2;
  if (all[0] != 1 || all[last ? axes + 1 : 1] != 1) {
    c.refuse(fmt::format("its attribute '{}' is not 1 for batch and channels", attribute));
  }
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(axes)};
}

void add_padding(const Conversion& c, Attributes& attributes, size_t axes, bool last) {
  const std::string padding = c.text("padding");
  if (padding == "SAME") {
    attributes["auto_pad"] = std::string("SAME_UPPER");
  } else if (padding == "VALID") {
    attributes["auto_pad"] = std::string("VALID");
  } else if (padding == "EXPLICIT") {
    const std::vector<int64_t> all = c.integers("explicit_paddings");  // begin and end of each axis
    const size_t first = last ? 1 : 2, channels = last ? axes + 1 : 1;
    if (all.size() != 2 * axes + 4) c.refuse("its explicit paddings are not two for each axis");
    if (all[0] || all[1] || all[2 * channels] || all[2 * channels + 1]) c.refuse("it pads batch or channels");
    std::vector<int64_t> pads(2 * axes);
    for (size_t axis = 0; axis < axes; ++axis) {
      pads[axis] = all[2 * (first + axis)];
      pads[axes + axis] = all[2 * (first + axis) + 1];
    }
    attributes["pads"] = pads;
  } else {
    c.refuse(fmt::format("the padding {}", padding));
  }
}

}  // namespace graft::tensorflow
