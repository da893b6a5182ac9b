// SPDX-License-Identifier: Apache-2.0
// Elements of a tensor as protobuf's typed fields carry them: each in a number at least as wide.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace graft {

/// Copies the low `width` bytes of each number.
template <class Field>
std::vector<std::byte> low_bytes(const Field& field, size_t width) {
  std::vector<std::byte> bytes(static_cast<size_t>(field.size()) * width);
  size_t at = 0;
  for (const auto value : field) {
    std::memcpy(bytes.data() + at, &value, width);
    at += width;
  }
  return bytes;
}

}  // namespace graft
