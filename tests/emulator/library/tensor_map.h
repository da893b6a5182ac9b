// SPDX-License-Identifier: Apache-2.0
// What the emulated driver writes into the 128 bytes of a CUtensorMap.
#pragma once

#include <cstdint>

namespace graft::emulator {

struct TensorMap {
  static constexpr uint32_t kMagic = 0x70616d67;
  uint32_t magic;
  uint8_t rank, element_bytes, swizzle_bytes, unused;
  char* address;
  uint32_t extents[5];  ///< in elements, the contiguous axis first
  uint32_t boxes[5];
  uint64_t strides[5];  ///< in bytes
};
static_assert(sizeof(TensorMap) <= 128);

}  // namespace graft::emulator
