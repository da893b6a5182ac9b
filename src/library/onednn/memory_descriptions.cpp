// SPDX-License-Identifier: Apache-2.0
#include "library/onednn/memory_descriptions.h"

#include <fmt/format.h>

#include "base/error.h"

namespace graft::onednn {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr auto kType = memory::data_type::f32;

struct Dimensions {
  memory::dims extents, strides;

  void add(const Size& extent, const Size& stride) {
    extents.push_back(extent.constant());
    strides.push_back(stride.constant());
  }
};

/// A dimension of extent 1 has no stride of its own: it gets the one that a dense tensor would have, by which oneDNN
/// recognises layouts. `order`: dimensions from the outermost in memory to the innermost.
void set_unit_strides(Dimensions& d, const std::vector<size_t>& order) {
  int64_t dense = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const size_t at = order[i];
    if (d.extents[at] == 1) d.strides[at] = dense;
    dense = d.strides[at] * d.extents[at];
  }
}

std::vector<size_t> in_order(size_t rank) {
  std::vector<size_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = i;
  return order;
}

/// Images, positions, channels.
std::vector<size_t> channels_last(size_t rank) {
  std::vector<size_t> order = {0};
  for (size_t i = 2; i < rank; ++i) order.push_back(i);
  order.push_back(1);
  return order;
}

memory::desc describe(const Dimensions& d) { return memory::desc(d.extents, kType, d.strides); }

/// [images, channels, positions...], the channels of all groups one after the other.
Dimensions image_dimensions(const LibraryCall& call, const CallOperand& operand, CallRole role) {
  const std::vector<Size> extents = extents_of(call, role);
  const size_t groups = call.batch.size();
  Dimensions d;
  d.add(extents[groups], operand.strides[groups]);
  const Size& channels = extents[groups + 1];
  const bool grouped = groups > 0;
  const Size all = grouped ? extents[0] * channels : channels;
  d.add(all, grouped && channels.is(1) ? operand.strides[0] : operand.strides[groups + 1]);
  for (size_t w = groups + 2; w < extents.size(); ++w) d.add(extents[w], operand.strides[w]);
  return d;
}

Dimensions dimensions(const LibraryCall& call, const CallOperand& operand, CallRole role) {
  if (call.is_convolution()) return image_dimensions(call, operand, role);
  Dimensions d;
  const std::vector<Size> extents = extents_of(call, role);
  for (size_t i = 0; i < extents.size(); ++i) d.add(extents[i], operand.strides[i]);
  // Batch axes along which an operand does not vary are broadcast.
  for (size_t b = 0; b < call.batch.size(); ++b) {
    if (d.strides[b] == 0) d.extents[b] = 1;
  }
  return d;
}

std::vector<size_t> memory_order(const LibraryCall& call, const Dimensions& d) {
  const bool last = call.is_convolution() && (d.strides[1] == 1 || d.extents[1] == 1);
  return last ? channels_last(d.extents.size()) : in_order(d.extents.size());
}

/// Formats of weights whose output channels lie in panels of 8, 16, 32, 48 and 64, by number of windows.
Tag convolution_panels(bool groups, size_t windows, int64_t panel) {
  constexpr Tag kPlain[3][5] = {{Tag::Owi8o, Tag::Owi16o, Tag::Owi32o, Tag::Owi48o, Tag::Owi64o},
                                {Tag::Ohwi8o, Tag::Ohwi16o, Tag::Ohwi32o, Tag::Ohwi48o, Tag::Ohwi64o},
                                {Tag::Odhwi8o, Tag::Odhwi16o, Tag::Odhwi32o, Tag::Odhwi48o, Tag::Odhwi64o}};
  constexpr Tag kGroups[3][5] = {{Tag::gOwi8o, Tag::gOwi16o, Tag::gOwi32o, Tag::gOwi48o, Tag::gOwi64o},
                                 {Tag::gOhwi8o, Tag::gOhwi16o, Tag::gOhwi32o, Tag::gOhwi48o, Tag::gOhwi64o},
                                 {Tag::gOdhwi8o, Tag::gOdhwi16o, Tag::gOdhwi32o, Tag::gOdhwi48o, Tag::gOdhwi64o}};
  const size_t column = panel == 8 ? 0 : static_cast<size_t>(panel / 16);
  if ((panel != 8 && panel % 16 != 0) || column > 4) return Tag::undef;
  return (groups ? kGroups : kPlain)[windows - 1][column];
}

Tag depthwise_panels(size_t windows, int64_t panel) {
  constexpr Tag kTags[3][2] = {
      {Tag::Goiw8g, Tag::Goiw16g}, {Tag::Goihw8g, Tag::Goihw16g}, {Tag::undef, Tag::Goidhw16g}};
  return panel == 8 || panel == 16 ? kTags[windows - 1][panel / 16] : Tag::undef;
}

/// oneDNN pads the depth of such weights to a multiple of 16, Graft does not.
Tag product_panels(int64_t depth, int64_t panel) {
  if (depth % 16 != 0) return Tag::undef;
  switch (panel) {
    case 16:
      return Tag::BA16a16b;
    case 32:
      return Tag::BA16a32b;
    case 48:
      return Tag::BA16a48b;
    case 64:
      return Tag::BA16a64b;
    default:
      return Tag::undef;
  }
}

Tag panel_tag(const LibraryCall& call) {
  const int64_t panel = call.weights.panel;
  if (!call.is_convolution()) return call.batch.empty() ? product_panels(call.depth.constant(), panel) : Tag::undef;
  const size_t windows = call.windows.size();
  const bool depthwise = !call.batch.empty() && call.columns.is(1) && call.depth.is(1);
  return depthwise ? depthwise_panels(windows, panel) : convolution_panels(!call.batch.empty(), windows, panel);
}

/// [groups, outputs, inputs, kernel...]
Dimensions kernel_dimensions(const LibraryCall& call) {
  const auto& strides = call.weights.strides;
  const size_t groups = call.batch.size();
  const auto stride = [&](size_t d) { return strides.empty() ? Size(0) : strides[d]; };
  Dimensions d;
  if (groups > 0) d.add(call.batch[0], stride(0));
  d.add(call.columns, stride(groups + 1));
  d.add(call.depth, stride(groups));
  for (size_t w = 0; w < call.windows.size(); ++w) d.add(call.windows[w].kernel, stride(groups + 2 + w));
  return d;
}

}  // namespace

memory::desc activation(const LibraryCall& call, const CallOperand& operand, CallRole role) {
  Dimensions d = dimensions(call, operand, role);
  set_unit_strides(d, memory_order(call, d));
  return describe(d);
}

memory::desc broadcast(const LibraryCall& call, const CallOperand& operand) {
  Dimensions d = dimensions(call, operand, CallRole::kResult);
  for (size_t i = 0; i < d.extents.size(); ++i) {
    if (d.strides[i] == 0) d.extents[i] = 1;
  }
  set_unit_strides(d, memory_order(call, d));
  return describe(d);
}

memory::desc weights(const LibraryCall& call) {
  Dimensions d = call.is_convolution() ? kernel_dimensions(call) : Dimensions();
  if (!call.is_convolution() && call.weights.panel == 0) d = dimensions(call, call.weights, CallRole::kWeights);
  if (call.weights.panel > 0) {
    if (!call.is_convolution()) d.extents = {call.depth.constant(), call.columns.constant()};
    const Tag tag = panel_tag(call);
    GRAFT_USER_CHECK(tag != Tag::undef, kUnsupported,
                     fmt::format("it has no format for these weights in panels of {}", call.weights.panel), "oneDNN");
    return memory::desc(d.extents, kType, tag);
  }
  set_unit_strides(d, in_order(d.extents.size()));
  return describe(d);
}

}  // namespace graft::onednn
