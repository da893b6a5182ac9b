// SPDX-License-Identifier: Apache-2.0
// A hash of bytes: of plans, and of weights that may have changed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace graft::extension {

inline std::array<uint64_t, 2> hash_of(const std::byte* data, size_t size) {
  std::array<uint64_t, 2> lanes = {0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F};
  for (size_t i = 0; i < size; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data + i, std::min<size_t>(8, size - i));
    uint64_t& lane = lanes[(i / 8) % 2];
    lane = (lane ^ word) * 0x9FB21C651E98DF25;
    lane ^= lane >> 29;
  }
  lanes[1] ^= size;
  return lanes;
}

}  // namespace graft::extension
