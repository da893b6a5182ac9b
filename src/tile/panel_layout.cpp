// SPDX-License-Identifier: Apache-2.0
#include "tile/panel_layout.h"

#include <charconv>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "expr/build.h"
#include "tile/split_words.h"

namespace graft::tile {
namespace {

constexpr int64_t kPair = kSplitStep / kSplitWords;  // elements of k in a word of parts

/// Takes `prefix` and the number behind it off the text.
int64_t take_number(std::string_view& text, std::string_view prefix) {
  int64_t number = -1;
  bool good = text.starts_with(prefix);
  if (good) {
    text.remove_prefix(prefix.size());
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    good = fault == std::errc() && number >= 0 && number <= 4096;
    if (good) text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  GRAFT_USER_CHECK(good, kInvalidArgument, fmt::format("'{}' is expected, with a number up to 4096", prefix), "layout");
  return number;
}

/// Elements that one step along each dimension (`pack` elements of the last of the rest) moves in the packed tensor of
/// a tensor of `rank`, without the split dimension's own.
std::vector<int64_t> packed_strides(const PanelLayout& layout, const std::vector<int64_t>& physical, size_t rank,
                                    int64_t& panel_stride) {
  std::vector<int64_t> strides(rank);
  int64_t stride = layout.lanes * (layout.parts > 1 ? layout.parts : layout.pack);
  for (size_t r = layout.rest.size(); r-- > 0;) {
    strides[static_cast<size_t>(layout.rest[r])] = stride;
    stride *= physical[static_cast<size_t>(layout.keep) + 1 + r];
  }
  panel_stride = stride;
  stride *= physical[static_cast<size_t>(layout.keep)];
  for (int d = layout.keep; d-- > 0;) {
    strides[static_cast<size_t>(d)] = stride;
    stride *= physical[static_cast<size_t>(d)];
  }
  return strides;
}

}  // namespace

std::string print(const PanelLayout& layout) {
  std::string text = fmt::format("panels dim={} lanes={} keep={} rest={}", layout.dim, layout.lanes, layout.keep,
                                 fmt::join(layout.rest, ","));
  if (layout.pack > 1) text += fmt::format(" pack={} step={}", layout.pack, layout.step);
  if (layout.parts > 1) text += fmt::format(" parts={}", layout.parts);
  return text;
}

PanelLayout parse_panel_layout(std::string_view text) {
  PanelLayout layout;
  layout.dim = static_cast<int>(take_number(text, "panels dim="));
  layout.lanes = take_number(text, " lanes=");
  layout.keep = static_cast<int>(take_number(text, " keep="));
  for (std::string_view separator = " rest="; !text.empty() && text != " rest=" && !text.starts_with(" pack=");
       separator = ",") {
    layout.rest.push_back(static_cast<int>(take_number(text, separator)));
  }
  if (text.starts_with(" pack=")) {
    layout.pack = take_number(text, " pack=");
    layout.step = take_number(text, " step=");
    const bool has_parts = text.starts_with(" parts=");
    if (has_parts) layout.parts = take_number(text, " parts=");
    GRAFT_USER_CHECK(text.empty(), kInvalidArgument, "nothing is expected behind step and parts", "layout");
    const bool splits = layout.parts == kParts && layout.step == kSplitStep && layout.pack == kPair;
    GRAFT_USER_CHECK(!has_parts || splits, kInvalidArgument, "parts are 3, of pack=2 step=32", "layout");
    const bool good = layout.pack > 1 && layout.step > 0 && layout.step % layout.pack == 0 && !layout.rest.empty();
    GRAFT_USER_CHECK(good, kInvalidArgument, "step is no multiple of pack, or pack is 1, or there is no rest",
                     "layout");
  }
  GRAFT_USER_CHECK(layout.lanes > 0, kInvalidArgument, "lanes is 0", "layout");
  return layout;
}

bool fits(const PanelLayout& layout, size_t rank) {
  std::vector<bool> placed(rank);
  const auto place = [&](int d) {
    if (d < 0 || static_cast<size_t>(d) >= rank || placed[static_cast<size_t>(d)]) return false;
    placed[static_cast<size_t>(d)] = true;
    return true;
  };
  if (layout.pack > 1 && layout.rest.empty()) return false;
  if (layout.lanes < 1 || layout.keep < 0 || static_cast<size_t>(layout.keep) >= rank) return false;
  bool good = place(layout.dim);
  for (int d = 0; d < layout.keep; ++d) good = good && place(d);
  for (const int d : layout.rest) good = good && place(d);
  return good && static_cast<size_t>(layout.keep) + 1 + layout.rest.size() == rank;
}

Shape physical_shape(const PanelLayout& layout, const Shape& shape) {
  Shape physical(shape.begin(), shape.begin() + layout.keep);
  physical.push_back(ceil_div(shape[layout.dim], layout.lanes));
  for (const int d : layout.rest) physical.push_back(shape[d]);
  if (layout.pack == 1) {
    physical.push_back(layout.lanes);
    return physical;
  }
  physical.back() = ceil_div(physical.back(), layout.step) * Size(layout.step / layout.pack);
  if (layout.parts > 1) physical.push_back(layout.parts);
  physical.push_back(layout.lanes);
  if (layout.parts == 1) physical.push_back(layout.pack);
  return physical;
}

std::vector<Expr> packed_indices(const PanelLayout& layout, const Shape& shape, const std::vector<Expr>& indices) {
  const Expr& along = indices[static_cast<size_t>(layout.dim)];
  const auto extent = shape[static_cast<size_t>(layout.dim)].as_constant();
  const bool one_panel = extent && *extent <= layout.lanes;
  const Expr lanes = make_index(layout.lanes);
  std::vector<Expr> result(indices.begin(), indices.begin() + layout.keep);
  result.push_back(one_panel ? make_index(0) : layout.lanes == 1 ? along : floor_div(along, lanes));
  for (const int d : layout.rest) result.push_back(indices[static_cast<size_t>(d)]);
  result.push_back(one_panel ? along : layout.lanes == 1 ? make_index(0) : mod(along, lanes));
  return result;
}

namespace {

/// The word of a part: `at` has the number of the word where the last of `rest` is.
Expr split_word(const PanelLayout& layout, const Tensor& source, const std::vector<Expr>& at, const Expr& part) {
  const int k = layout.rest.back();
  const Expr& word = at[static_cast<size_t>(k)];
  const Expr words = make_index(kSplitWords);
  const Expr first = floor_div(word, words) * make_index(kSplitStep) + mod(word, words);
  const Size& whole = source.shape()[static_cast<size_t>(k)];
  const auto element = [&](const Expr& depth) {
    std::vector<Expr> from = at;
    from[static_cast<size_t>(k)] = depth;
    if (whole.is_multiple_of(kSplitStep)) return source(from);
    return select(lt(depth, make_size(whole)), source(from), make_constant(DType::kFloat32, 0));
  };
  const SplitExprs parts = lossless_words(element(first), element(first + words));
  return select(eq(part, make_index(0)), parts[0], select(eq(part, make_index(1)), parts[1], parts[2]));
}

}  // namespace

Region packing_region(const PanelLayout& layout, DType type, const Shape& shape) {
  RegionBuilder builder;
  const Tensor source = builder.input("source", type, shape);
  const Size extent = shape[layout.dim];
  const Tensor packed = builder.compute("packed", type, physical_shape(layout, shape), [&](const Indices& i) {
    Indices from(i.begin(), i.begin() + layout.keep);
    from.resize(shape.size());
    const size_t behind = static_cast<size_t>(layout.keep) + 1;
    const Expr& lane = layout.pack == 1 || layout.parts > 1 ? i.back() : i[behind + layout.rest.size()];
    const Expr element = i[layout.keep] * make_index(layout.lanes) + lane;
    from[layout.dim] = element;
    for (size_t r = 0; r < layout.rest.size(); ++r) from[layout.rest[r]] = i[behind + r];
    const Expr zero = make_integer(type, 0);
    Expr value;
    if (layout.pack == 1) {
      value = source(from);
    } else if (layout.parts > 1) {
      value = split_word(layout, source, from, i[i.size() - 2]);
    } else {
      Expr& depth = from[layout.rest.back()];
      depth = depth * make_index(layout.pack) + i.back();
      const Size& whole = shape[layout.rest.back()];
      value = source(from);
      if (!whole.is_multiple_of(layout.step)) value = select(lt(depth, make_size(whole)), value, zero);
    }
    if (extent.is_multiple_of(layout.lanes)) return value;
    return select(lt(element, make_size(extent)), value, zero);
  });
  return builder.finish("pack", {packed});
}

namespace {

/// The word, among those along k, that holds element `k`, and which half of it.
int64_t word_of(int64_t k) { return k / kSplitStep * kSplitWords + k % kSplitWords; }
int64_t half_of(int64_t k) { return k % kSplitStep / kSplitWords; }

/// Calls `visit` with the number of each row-major element of a tensor of `shape` and its place in the packed one: of
/// parts, the first one's, in halves of words.
template <class Visit>
void for_each_place(const PanelLayout& layout, const std::vector<int64_t>& shape, const std::vector<int64_t>& physical,
                    const Visit& visit) {
  int64_t panel_stride = 0, count = 1;
  const std::vector<int64_t> strides = packed_strides(layout, physical, shape.size(), panel_stride);
  const int packed = layout.pack > 1 ? layout.rest.back() : -1;  // the dimension of which some elements lie together
  for (const int64_t extent : shape) count *= extent;
  const bool splits = layout.parts > 1;
  const int64_t lane_stride = splits ? 1 : layout.pack;
  std::vector<int64_t> at(shape.size());
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0, half = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      if (static_cast<int>(d) == layout.dim) {
        place += at[d] / layout.lanes * panel_stride + at[d] % layout.lanes * lane_stride;
      } else if (static_cast<int>(d) == packed && splits) {
        place += word_of(at[d]) * strides[d];
        half = half_of(at[d]);
      } else if (static_cast<int>(d) == packed) {
        place += at[d] / layout.pack * strides[d] + at[d] % layout.pack;
      } else {
        place += at[d] * strides[d];
      }
    }
    visit(static_cast<size_t>(i), static_cast<size_t>(splits ? place * kPair + half : place));
    for (size_t d = at.size(); d-- > 0 && ++at[d] == shape[d];) at[d] = 0;
  }
}

}  // namespace

TensorData pack(const PanelLayout& layout, const TensorData& row_major, const std::vector<int64_t>& shape) {
  GRAFT_CHECK(fits(layout, shape.size()), describe(row_major) + " does not fit its layout");
  std::vector<int64_t> physical;
  for (const Size& size : physical_shape(layout, Shape(shape.begin(), shape.end()))) {
    physical.push_back(size.constant());
  }
  TensorData packed = TensorData::zeros(row_major.type(), physical);
  const auto width = static_cast<size_t>(bit_width(packed.type()) / 8);
  const std::byte* from = row_major.bytes().data();
  std::byte* to = packed.mutable_bytes().data();
  if (layout.parts > 1) {
    const auto part_stride = static_cast<size_t>(layout.lanes * kPair);
    for_each_place(layout, shape, physical, [&](size_t i, size_t place) {
      float element = 0;
      std::memcpy(&element, from + i * width, width);
      const SplitBits parts = split_bits(element);
      for (size_t p = 0; p < parts.size(); ++p) {
        std::memcpy(to + (place + p * part_stride) * sizeof(uint16_t), &parts[p], sizeof(uint16_t));
      }
    });
    return packed;
  }
  for_each_place(layout, shape, physical,
                 [&](size_t i, size_t place) { std::memcpy(to + place * width, from + i * width, width); });
  return packed;
}

TensorData unpack(const PanelLayout& layout, const TensorData& packed, const std::vector<int64_t>& shape) {
  GRAFT_CHECK(fits(layout, shape.size()) && packed.rank() == static_cast<int>(shape.size()) + (layout.pack > 1 ? 2 : 1),
              describe(packed) + " does not fit its layout");
  const auto width = static_cast<size_t>(bit_width(packed.type()) / 8);
  TensorData row_major = TensorData::zeros(packed.type(), shape);
  const std::byte* from = packed.bytes().data();
  std::byte* to = row_major.mutable_bytes().data();
  if (layout.parts > 1) {
    const auto part_stride = static_cast<size_t>(layout.lanes * kPair);
    for_each_place(layout, shape, packed.shape(), [&](size_t i, size_t place) {
      SplitBits parts;
      for (size_t p = 0; p < parts.size(); ++p) {
        std::memcpy(&parts[p], from + (place + p * part_stride) * sizeof(uint16_t), sizeof(uint16_t));
      }
      const float element = joined_bits(parts);
      std::memcpy(to + i * width, &element, width);
    });
    return row_major;
  }
  for_each_place(layout, shape, packed.shape(),
                 [&](size_t i, size_t place) { std::memcpy(to + i * width, from + place * width, width); });
  return row_major;
}

}  // namespace graft::tile
