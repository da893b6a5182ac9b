// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/tensor_slices.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "import/tensorflow/saved_model.pb.h"

namespace graft::tensorflow {
namespace {

using graft_tensorflow::TensorSliceProto;

constexpr size_t kMostParts = 1 << 12;
constexpr int64_t kWhole = -1;  // the length of an axis that is not divided, in a key

/// The number of its bytes, and these, the highest first.
void append_unsigned(std::string& key, uint64_t number) {
  const int bytes = (std::bit_width(number) + 7) / 8;
  key += static_cast<char>(bytes);
  for (int i = bytes; i-- > 0;) key += static_cast<char>(number >> (8 * i));
}

/// As many leading ones as there are bytes, and behind them the number, the highest bits first.
void append_signed(std::string& key, int64_t number) {
  constexpr int kMost = 10;
  const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(number < 0 ? ~number : number)));
  const int length = bits / 7 + 1;
  unsigned char bytes[kMost];
  for (int i = 0; i < kMost; ++i) {
    const int shift = 8 * (kMost - 1 - i);
    bytes[i] = static_cast<unsigned char>(shift < 64 ? number >> shift : number >> 63);
  }
  unsigned char* const first = bytes + kMost - length;
  for (int i = 0; i < length; ++i) first[i / 8] = static_cast<unsigned char>(first[i / 8] ^ (0x80 >> (i % 8)));
  key.append(reinterpret_cast<const char*>(first), static_cast<size_t>(length));
}

/// With an end that no text goes on with.
void append_text(std::string& key, std::string_view text) {
  for (const char each : text) {
    key += each;
    if (each == '\0') key += '\xff';
    if (each == '\xff') key += '\0';
  }
  key += '\0', key += '\1';
}

int64_t count_of(const TensorSlice& slice) {
  int64_t count = 1;
  for (const int64_t length : slice.length) count *= length;
  return count;
}

bool meet(const TensorSlice& one, const TensorSlice& other) {
  for (size_t axis = 0; axis < one.start.size(); ++axis) {
    if (one.start[axis] >= other.start[axis] + other.length[axis] ||
        other.start[axis] >= one.start[axis] + one.length[axis]) {
      return false;
    }
  }
  return true;
}

/// Whether each element of a tensor of so many is in one of the parts, which lie within it.
bool cover(const std::vector<TensorPart>& parts, int64_t count) {
  for (size_t i = 0; i < parts.size(); ++i) {
    count -= count_of(parts[i].slice);
    for (size_t k = 0; k < i; ++k) {
      if (meet(parts[i].slice, parts[k].slice)) return false;
    }
  }
  return count == 0;
}

/// Copies a part to its place in the whole, run by run.
class Placement {
 public:
  Placement(const std::vector<int64_t>& shape, const TensorPart& part, size_t width)
      : slice_(part.slice), from_(part.data.bytes().data()), strides_(shape.size(), width) {
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (axis + 1 < shape.size()) strides_[axis] = strides_[axis + 1] * static_cast<size_t>(shape[axis + 1]);
      if (slice_.length[axis] != shape[axis]) last_ = std::max(last_, axis);
    }
  }

  void run(std::byte* whole, size_t axis = 0) {
    std::byte* const to = whole + static_cast<size_t>(slice_.start[axis]) * strides_[axis];
    if (axis == last_) {
      const size_t bytes = static_cast<size_t>(slice_.length[axis]) * strides_[axis];
      std::memcpy(to, from_, bytes);
      from_ += bytes;
      return;
    }
    for (int64_t i = 0; i < slice_.length[axis]; ++i) run(to + static_cast<size_t>(i) * strides_[axis], axis + 1);
  }

 private:
  const TensorSlice& slice_;
  const std::byte* from_;
  std::vector<size_t> strides_;  // in bytes
  size_t last_ = 0;              // behind this axis the part has all that the whole has
};

}  // namespace

TensorSlice read_slice(const TensorSliceProto& message, const std::vector<int64_t>& shape, const std::string& where) {
  GRAFT_USER_CHECK(static_cast<size_t>(message.extent_size()) == shape.size() && !shape.empty(), kInvalidModel,
                   "a part of it has another rank", where);
  TensorSlice slice;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const auto& extent = message.extent(static_cast<int>(axis));
    const int64_t length = extent.has_length() ? extent.length() : shape[axis];
    const bool inside = extent.start() >= 0 && length >= 0 && length <= shape[axis] &&
                        extent.start() <= shape[axis] - length;
    GRAFT_USER_CHECK(inside, kInvalidModel, fmt::format("a part of it does not lie within axis {}", axis), where);
    slice.start.push_back(extent.start()), slice.length.push_back(length);
  }
  return slice;
}

std::string slice_key(std::string_view tensor, const TensorSliceProto& message) {
  std::string key;
  append_unsigned(key, 0);
  append_text(key, tensor);
  append_unsigned(key, static_cast<uint64_t>(message.extent_size()));
  for (const auto& extent : message.extent()) {
    append_signed(key, extent.start());
    append_signed(key, extent.has_length() ? extent.length() : kWhole);
  }
  return key;
}

TensorData join_parts(DType type, std::vector<int64_t> shape, std::vector<TensorPart> parts, const std::string& where) {
  GRAFT_USER_CHECK(bit_width(type) % 8 == 0, kUnsupported, "it is saved in parts, of elements narrower than a byte",
                   where);
  const bool whole = parts.size() <= kMostParts && cover(parts, checked_element_count(type, shape, where));
  GRAFT_USER_CHECK(whole, kInvalidModel, "its parts do not have each element once: copy or save the model again",
                   where);
  return TensorData::deferred(type, shape, [type, shape, parts = std::move(parts)] {
    TensorData made = TensorData::zeros(type, shape);
    const auto into = made.mutable_bytes();
    for (const TensorPart& part : parts) {
      if (part.data.element_count() == 0) continue;
      Placement(shape, part, static_cast<size_t>(bit_width(type)) / 8).run(into.data());
    }
    return made;
  });
}

}  // namespace graft::tensorflow
