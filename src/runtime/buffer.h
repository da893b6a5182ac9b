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
#include "base/large_memory.h"
#include "base/run_limits.h"
#include "device/device.h"

namespace graft {

/// Where a session's memory comes from, and how much it may be. Outlives the buffers.
struct SessionMemory {
  std::shared_ptr<DeviceStream> stream;  ///< null: the host's memory; shared with the sessions of bodies
  /// Shared with tensors made in a run, which may outlive the session.
  std::shared_ptr<MemoryBudget> budget = std::make_shared<MemoryBudget>();
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

  /// At least `bytes`; contents are lost when it grows. Throws out_of_memory naming what it is for, how much it is, the
  /// limit and the remedy, and holds nothing then.
  void* reserve(int64_t bytes, SessionMemory& memory, std::string_view what, std::string_view name = {}) {
    if (bytes <= bytes_ && data_) return data_;
    release();
    memory_ = &memory;
    const int64_t rounded = checked_aligned(std::max<int64_t>(bytes, 1), kAlignment, what);
    memory.budget->take(rounded, what, name, memory.stream ? kMostBytes : machine_memory());
    try {
      data_ = static_cast<char*>(memory.stream ? memory.stream->allocate(rounded)
                                               : std::aligned_alloc(kAlignment, static_cast<size_t>(rounded)));
    } catch (const Error& error) {
      memory.budget->give(rounded);
      throw Error(error.kind(), fmt::format("{}, for {}{}", error.message(), what, name), "run");
    }
    if (!data_) {
      memory.budget->give(rounded);
      throw_no_memory(rounded, what, name);
    }
    if (!memory.stream) prefer_huge_pages(data_, rounded);
    bytes_ = rounded;
    return data_;
  }
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  /// Gives the memory back.
  void release() {
    if (!data_) return;
    if (memory_->stream) {
      memory_->stream->release(data_);
    } else {
      std::free(data_);
    }
    memory_->budget->give(bytes_);
    data_ = nullptr;
    bytes_ = 0;
  }
  static constexpr int64_t kAlignment = 64;  ///< on the host

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
  SessionMemory* memory_ = nullptr;
};

}  // namespace graft
