// SPDX-License-Identifier: Apache-2.0
// Memory of a session's own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"

namespace graft {

/// 64-byte aligned memory that only grows.
class AlignedBuffer {
 public:
  ~AlignedBuffer() { std::free(data_); }
  AlignedBuffer() = default;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  AlignedBuffer(AlignedBuffer&& other) noexcept : data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
    other.bytes_ = 0;
  }
  AlignedBuffer& operator=(AlignedBuffer&&) = delete;

  /// At least `bytes`; contents are lost when it grows. Throws out_of_memory naming what it is for.
  void* reserve(int64_t bytes, std::string_view what, std::string_view name = "") {
    if (bytes <= bytes_ && data_) return data_;
    std::free(data_);
    const size_t rounded = (static_cast<size_t>(std::max<int64_t>(bytes, 1)) + 63) / 64 * 64;
    data_ = static_cast<char*>(std::aligned_alloc(64, rounded));
    bytes_ = data_ ? static_cast<int64_t>(rounded) : 0;
    GRAFT_USER_CHECK(data_, kOutOfMemory, fmt::format("cannot allocate {} bytes for {}{}", bytes, what, name), "run");
    return data_;
  }
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace graft
