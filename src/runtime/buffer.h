// SPDX-License-Identifier: Apache-2.0
// Memory of a session that only grows, on the host or on a device, within a ceiling.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "device/device.h"

namespace graft {

/// Where a session's memory comes from, and how much it may be. Outlives the buffers.
struct SessionMemory {
  std::unique_ptr<DeviceStream> stream;  ///< null: the host's memory
  int64_t used = 0;
  int64_t limit = 0;  ///< bytes; 0: what the machine has
};

/// Memory aligned to 64 bytes on the host, to 256 on a device.
class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { release(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept : data_(other.data_), bytes_(other.bytes_), memory_(other.memory_) {
    other.data_ = nullptr;
    other.bytes_ = 0;
  }
  Buffer& operator=(Buffer&&) = delete;

  /// At least `bytes`; contents are lost when it grows. Throws out_of_memory naming what it is for, and holds nothing
  /// then.
  void* reserve(int64_t bytes, SessionMemory& memory, std::string_view what, std::string_view name = {}) {
    if (bytes <= bytes_ && data_) return data_;
    release();
    memory_ = &memory;
    const int64_t rounded = (std::max<int64_t>(bytes, 1) + 63) / 64 * 64;
    const auto why = [&](std::string_view reason) { return fmt::format("{}, for {}{}", reason, what, name); };
    if (memory.limit > 0 && rounded > memory.limit - memory.used) {
      const std::string reason = fmt::format("cannot take {} bytes: the session may have {} and holds {}", bytes,
                                             memory.limit, memory.used);
      throw Error(ErrorKind::kOutOfMemory, why(reason), "run");
    }
    try {
      data_ = static_cast<char*>(memory.stream ? memory.stream->allocate(rounded)
                                               : std::aligned_alloc(64, static_cast<size_t>(rounded)));
    } catch (const Error& error) {
      throw Error(error.kind(), why(error.message()), "run");
    }
    GRAFT_USER_CHECK(data_, kOutOfMemory, why(fmt::format("cannot allocate {} bytes", bytes)), "run");
    bytes_ = rounded;
    memory.used += rounded;
    return data_;
  }
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void release() {
    if (!data_) return;
    if (memory_->stream) {
      memory_->stream->release(data_);
    } else {
      std::free(data_);
    }
    memory_->used -= bytes_;
    data_ = nullptr;
    bytes_ = 0;
  }
  char* data_ = nullptr;
  int64_t bytes_ = 0;
  SessionMemory* memory_ = nullptr;
};

}  // namespace graft
