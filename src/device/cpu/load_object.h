// SPDX-License-Identifier: Apache-2.0
// Puts the object code of kernels into memory, so that running kernels needs no compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace graft {

/// An ELF relocatable object of this process's architecture, mapped and linked. No memory is ever writable and
/// executable at once. External symbols come only from find_host_function. Not copyable; find() is safe from several
/// threads.
class LoadedObject {
 public:
  LoadedObject() = default;
  ~LoadedObject();
  LoadedObject(LoadedObject&& other) noexcept;
  LoadedObject& operator=(LoadedObject&& other) noexcept;
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

  /// Checks every offset, size and index of `bytes` before it is used; malformed bytes give an error.
  static Status load(std::span<const uint8_t> bytes, LoadedObject* into);

  /// The address of a global function, or null.
  void* find(std::string_view name) const;
  size_t mapped_bytes() const { return size_; }

 private:
  void release();

  uint8_t* base_ = nullptr;
  size_t size_ = 0;
  std::map<std::string, uint64_t, std::less<>> functions_;  ///< offsets from base_
};

}  // namespace graft
