// SPDX-License-Identifier: Apache-2.0
// What calls of the system on files share: a descriptor that closes itself, and the error of a call that failed.
#pragma once

#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>

namespace graft {

/// Closes a file descriptor on every way out.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  int get() const { return value_; }
  /// Hands the descriptor over to the caller.
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

/// Throws what errno's `code` means for the caller: `cannot ACTION the file: ...`, with a remedy.
[[noreturn]] void fail_on_file(std::string_view action, const std::string& path, int code);

}  // namespace graft
