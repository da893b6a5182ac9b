// SPDX-License-Identifier: Apache-2.0
// Tensors of tests in memory of every layout: what a caller of the public API may hand in.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "graft/graft.h"

namespace graft_test {

using Shape = std::vector<int64_t>;
using Bytes = std::vector<std::byte>;

inline size_t bytes_of(graft::DataType type) {
  switch (type) {
    case graft::DataType::kBool:
    case graft::DataType::kUint8:
      return 1;
    case graft::DataType::kFloat16:
      return 2;
    case graft::DataType::kInt64:
    case graft::DataType::kFloat64:
      return 8;
    default:
      return 4;
  }
}

inline size_t count_of(const Shape& shape) {
  size_t count = 1;
  for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
  return count;
}

/// Seeded values as row-major bytes: floats in [-2, 2) (f16: [1, 2)), integers 0 to 4, and 0 or 1.
inline Bytes random_values(graft::DataType type, const Shape& shape, uint64_t seed) {
  const size_t width = bytes_of(type), count = count_of(shape);
  Bytes bytes(width * count);
  graft::Random random(seed);
  for (size_t i = 0; i < count; ++i) {
    const auto f32 = static_cast<float>(random.uniform(-2, 2));
    const double f64 = f32;
    const int64_t whole = random.integer(0, type == graft::DataType::kBool ? 1 : 4);
    const auto f16 = static_cast<uint16_t>(0x3C00 + random.integer(0, 1023));
    const void* from = type == graft::DataType::kFloat32   ? static_cast<const void*>(&f32)
                       : type == graft::DataType::kFloat64 ? static_cast<const void*>(&f64)
                       : type == graft::DataType::kFloat16 ? static_cast<const void*>(&f16)
                                                           : &whole;
    std::memcpy(bytes.data() + i * width, from, width);
  }
  return bytes;
}

/// How a tensor lies in memory: a factor for each row-major stride, gaps, direction and the first byte.
struct Layout {
  const char* name;
  bool reversed_axes = false;  ///< the first axis varies fastest
  bool backwards = false;      ///< negative strides, `data` being the last place
  int64_t step = 1;            ///< elements from one to the next along the fastest axis
  size_t first_byte = 0;       ///< offset of the tensor from an aligned address
};

inline constexpr Layout kLayouts[] = {
    {.name = "row_major"},
    {.name = "column_major", .reversed_axes = true},
    {.name = "backwards", .backwards = true},
    {.name = "every_third_element", .step = 3},
    {.name = "odd_address", .first_byte = 1},
    {.name = "all_at_once", .reversed_axes = true, .backwards = true, .step = 2, .first_byte = 3},
};

/// A tensor in memory of its own, with a margin around it and gaps that nobody may write to.
class Buffer {
 public:
  Buffer(graft::DataType type, Shape shape, const Layout& layout)
      : type_(type), shape_(std::move(shape)), strides_(shape_.size()), width_(bytes_of(type)) {
    int64_t stride = layout.step;
    for (size_t i = 0; i < shape_.size(); ++i) {
      const size_t axis = layout.reversed_axes ? i : shape_.size() - 1 - i;
      strides_[axis] = layout.backwards ? -stride : stride;
      stride *= std::max<int64_t>(shape_[axis], 1);
    }
    memory_.assign(2 * kMargin + static_cast<size_t>(stride) * width_ + 64, kUntouched);
    const auto address = reinterpret_cast<uintptr_t>(memory_.data() + kMargin);
    start_ = kMargin + (64 - address % 64) % 64 + layout.first_byte;
    if (layout.backwards && count_of(shape_) > 0) {
      for (size_t axis = 0; axis < shape_.size(); ++axis) {
        start_ += static_cast<size_t>((shape_[axis] - 1) * -strides_[axis]) * width_;
      }
    }
  }
  /// Holding the row-major `values`.
  Buffer(graft::DataType type, Shape shape, const Layout& layout, const Bytes& values)
      : Buffer(type, std::move(shape), layout) {
    for (size_t i = 0; i < count_of(shape_); ++i) std::memcpy(place(i), values.data() + i * width_, width_);
  }

  graft::TensorView view(const std::string& name) { return {name, type_, shape_, strides_, memory_.data() + start_}; }
  /// The elements, row-major.
  Bytes values() const {
    Bytes values(count_of(shape_) * width_);
    for (size_t i = 0; i < count_of(shape_); ++i) std::memcpy(values.data() + i * width_, place(i), width_);
    return values;
  }
  /// Whether every byte that is no element's is as it was.
  bool is_intact() const {
    Bytes rest = memory_;
    for (size_t i = 0; i < count_of(shape_); ++i) {
      std::memset(rest.data() + (place(i) - memory_.data()), static_cast<int>(kUntouched), width_);
    }
    return rest == Bytes(rest.size(), kUntouched);
  }

 private:
  static constexpr size_t kMargin = 128;
  static constexpr std::byte kUntouched{0xA5};

  const std::byte* place(size_t element) const {
    auto offset = static_cast<int64_t>(start_);
    for (size_t axis = shape_.size(); axis-- > 0; element /= static_cast<size_t>(shape_[axis])) {
      const auto index = static_cast<int64_t>(element % static_cast<size_t>(shape_[axis]));
      offset += index * strides_[axis] * static_cast<int64_t>(width_);
    }
    return memory_.data() + offset;
  }
  std::byte* place(size_t element) { return const_cast<std::byte*>(std::as_const(*this).place(element)); }

  graft::DataType type_;
  Shape shape_, strides_;
  size_t width_, start_ = 0;
  Bytes memory_;
};

}  // namespace graft_test
