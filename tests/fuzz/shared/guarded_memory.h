// SPDX-License-Identifier: Apache-2.0
// Memory between pages that nobody may touch: what reaches beyond it ends the process, also from code that no sanitizer
// looks into, as generated kernels and libraries are. Programs that link this have their aligned_alloc there too, which
// tensors, arenas and scratch memory come from.
#pragma once

#include <cstddef>
#include <cstdint>

namespace graft::fuzz {

/// The end of a piece of memory that lies right beside such a page.
enum class GuardedEnd : uint8_t { kFirst, kLast };

/// A caller's buffer of exactly so many bytes, which begin as 0xa5.
class GuardedMemory {
 public:
  GuardedMemory(size_t bytes, GuardedEnd end);
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&& other) noexcept : data_(other.data_), bytes_(other.bytes_) { other.data_ = nullptr; }
  GuardedMemory& operator=(GuardedMemory&&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  size_t bytes_;
};

}  // namespace graft::fuzz
