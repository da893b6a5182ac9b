// SPDX-License-Identifier: Apache-2.0
#include "base/checked_size.h"

#include <string>

#include <fmt/format.h>

#include "base/error.h"

namespace graft {
namespace {

[[noreturn]] void refuse(const std::string& bytes, std::string_view what) {
  throw Error(ErrorKind::kOutOfMemory,
              fmt::format("{} would take {} bytes; at most {} can be had: use smaller sizes", what, bytes, kMostBytes));
}

}  // namespace

int64_t checked_bytes(int64_t bytes, std::string_view what) {
  if (bytes < 0 || bytes > kMostBytes) refuse(std::to_string(bytes), what);
  return bytes;
}

int64_t checked_product(int64_t a, int64_t b, std::string_view what) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) || result < 0 || result > kMostBytes) {
    refuse(fmt::format("{} x {}", a, b), what);
  }
  return result;
}

int64_t checked_sum(int64_t a, int64_t b, std::string_view what) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result) || result < 0 || result > kMostBytes) {
    refuse(fmt::format("{} + {}", a, b), what);
  }
  return result;
}

int64_t checked_aligned(int64_t bytes, int64_t alignment, std::string_view what) {
  return (checked_bytes(bytes, what) + alignment - 1) / alignment * alignment;
}

}  // namespace graft
