// SPDX-License-Identifier: Apache-2.0
// Memory of a session that only grows, on the host or on a device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "device/device.h"

namespace graft {

/// 64-byte aligned host memory, or memory of the stream's device.
class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { release(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept : data_(other.data_), bytes_(other.bytes_), stream_(other.stream_) {
    other.data_ = nullptr;
    other.bytes_ = 0;
  }
  Buffer& operator=(Buffer&&) = delete;

  /// At least `bytes`, on `stream`'s device unless that is null; contents are lost when it grows. Throws out_of_memory
  /// naming what it is for.
  void* reserve(int64_t bytes, DeviceStream* stream, std::string_view what, std::string_view name = {}) {
    if (bytes <= bytes_ && data_) return data_;
    release();
    stream_ = stream;
    const int64_t rounded = (std::max<int64_t>(bytes, 1) + 63) / 64 * 64;
    if (stream) {
      try {
        data_ = static_cast<char*>(stream->allocate(rounded));
      } catch (const Error& error) {
        throw Error(error.kind(), fmt::format("{}, for {}{}", error.message(), what, name), "run");
      }
    } else {
      data_ = static_cast<char*>(std::aligned_alloc(64, static_cast<size_t>(rounded)));
    }
    bytes_ = data_ ? rounded : 0;
    GRAFT_USER_CHECK(data_, kOutOfMemory, fmt::format("cannot allocate {} bytes for {}{}", bytes, what, name), "run");
    return data_;
  }
  char* data() const { return data_; }

 private:
  void release() {
    if (stream_) {
      stream_->release(data_);
    } else {
      std::free(data_);
    }
    data_ = nullptr;
    bytes_ = 0;
  }
  char* data_ = nullptr;
  int64_t bytes_ = 0;
  DeviceStream* stream_ = nullptr;
};

}  // namespace graft
