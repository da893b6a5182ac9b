// SPDX-License-Identifier: Apache-2.0
// The checksum of checkpoints: CRC-32 with Castagnoli's polynomial (RFC 3720), masked as LevelDB stores it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace graft::tensorflow {

/// The checksum of bytes behind others whose checksum is `before`.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
/// What is stored for a checksum: another number, as checksums of bytes that hold checksums are weak.
constexpr uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

}  // namespace graft::tensorflow
