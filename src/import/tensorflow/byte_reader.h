// SPDX-License-Identifier: Apache-2.0
// Numbers and runs of bytes, one after the other, of a file that may end anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace graft::tensorflow {

/// Each call gives nothing where less is left than it takes.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t left() const { return bytes_.size(); }

  std::optional<std::span<const std::byte>> take(uint64_t count) {
    if (count > bytes_.size()) return std::nullopt;
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

  /// A little-endian number of up to 4 bytes.
  std::optional<uint32_t> number(size_t width) {
    const auto bytes = take(width);
    if (!bytes) return std::nullopt;
    uint32_t made = 0;
    for (size_t i = 0; i < width; ++i) made |= static_cast<uint32_t>((*bytes)[i]) << (8 * i);
    return made;
  }

  /// Seven bits a byte, low ones first, as protobuf and LevelDB have them.
  std::optional<uint64_t> varint() {
    uint64_t made = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = number(1);
      if (!byte) return std::nullopt;
      made |= uint64_t{*byte & 0x7f} << shift;
      if (*byte < 0x80) return made;
    }
    return std::nullopt;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace graft::tensorflow
