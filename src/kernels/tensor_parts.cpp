// SPDX-License-Identifier: Apache-2.0
#include "kernels/tensor_parts.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"

namespace graft {
namespace {

/// The elements before and behind an axis, of the sizes other than its own.
struct Around {
  int64_t before = 1, behind = 1;
};

Around around(const std::vector<int64_t>& shape, size_t axis) {
  Around sizes;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d != axis) (d < axis ? sizes.before : sizes.behind) *= shape[d];
  }
  return sizes;
}

/// Elements that share bytes, one by one.
void copy_bits(const TensorData& from, int64_t first, TensorData& to, int64_t at, int64_t count) {
  const int bits = bit_width(from.type());
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  const auto* source = reinterpret_cast<const uint8_t*>(from.bytes().data());
  auto* target = reinterpret_cast<uint8_t*>(to.mutable_bytes().data());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t here = (first + i) * bits, there = (at + i) * bits;
    const auto element = static_cast<uint8_t>(source[here / 8] >> (here % 8) & mask);
    uint8_t& byte = target[there / 8];
    byte = static_cast<uint8_t>((byte & ~(mask << there % 8)) | element << there % 8);
  }
}

}  // namespace

size_t counted_axis(int64_t axis, int rank) {
  const int64_t counted = axis < 0 ? axis + rank : axis;
  GRAFT_USER_CHECK(counted >= 0 && counted < rank, kInvalidArgument,
                   fmt::format("axis {} is not one of a tensor of rank {}", axis, rank), "");
  return static_cast<size_t>(counted);
}

void copy_elements(const TensorData& from, int64_t first, TensorData& to, int64_t at, int64_t count) {
  if (count == 0) return;
  if (from.type() == DType::kString) {
    std::copy_n(from.strings().begin() + first, count, to.mutable_strings().begin() + at);
  } else if (bit_width(from.type()) < 8) {
    copy_bits(from, first, to, at, count);
  } else {
    const int64_t width = bit_width(from.type()) / 8;
    std::memcpy(to.mutable_bytes().data() + at * width, from.bytes().data() + first * width,
                static_cast<size_t>(count * width));
  }
}

TensorData part_along(const TensorData& whole, size_t axis, int64_t begin, int64_t length) {
  std::vector<int64_t> shape = whole.shape();
  const int64_t extent = shape[axis];
  GRAFT_CHECK(begin >= 0 && length >= 0 && length <= extent - begin, "a part lies inside of its tensor");
  shape[axis] = length;
  const Around sizes = around(shape, axis);
  TensorData part = TensorData::zeros(whole.type(), std::move(shape));
  for (int64_t i = 0; i < sizes.before; ++i) {
    copy_elements(whole, (i * extent + begin) * sizes.behind, part, i * length * sizes.behind, length * sizes.behind);
  }
  return part;
}

TensorData joined_along(std::span<const TensorData> parts, size_t axis) {
  std::vector<int64_t> shape = parts[0].shape();
  shape[axis] = 0;
  for (const TensorData& part : parts) {
    std::vector<int64_t> other = part.shape();
    const bool fits = part.type() == parts[0].type() && other.size() == shape.size();
    const int64_t extent = fits ? other[axis] : 0;
    if (fits) other[axis] = shape[axis];
    GRAFT_USER_CHECK(fits && other == shape, kInvalidArgument,
                     fmt::format("{} and {} do not fit one behind the other along axis {}", describe(parts[0]),
                                 describe(part), axis), "");
    GRAFT_USER_CHECK(!__builtin_add_overflow(shape[axis], extent, &shape[axis]), kInvalidArgument,
                     "what is joined is larger than memory can be", "");
  }
  const int64_t extent = shape[axis];
  const Around sizes = around(shape, axis);
  TensorData whole = TensorData::zeros(parts[0].type(), std::move(shape));
  int64_t begin = 0;
  for (const TensorData& part : parts) {
    const int64_t length = part.shape()[axis];
    for (int64_t i = 0; i < sizes.before; ++i) {
      copy_elements(part, i * length * sizes.behind, whole, (i * extent + begin) * sizes.behind,
                    length * sizes.behind);
    }
    begin += length;
  }
  return whole;
}

}  // namespace graft
