// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel_entry.h"

#include <cstdint>
#include <cstring>

#include "base/hash.h"

namespace graft {
namespace {

constexpr char kMagic[8] = {'G', 'R', 'A', 'F', 'T', 'K', 'R', '1'};

/// The checksum covers the sizes, the key and the code.
struct EntryHeader {
  char magic[8];
  uint64_t checksum_high, checksum_low;
  uint64_t key_bytes, code_bytes;
};

Hash128 checksum_of(std::string_view key, std::span<const std::byte> code) {
  Hasher hasher;
  hasher.add(static_cast<int64_t>(key.size())).add(static_cast<int64_t>(code.size()));
  return hasher.add(key).add(code).finish();
}

}  // namespace

std::vector<std::byte> encode_kernel_entry(std::string_view key, std::span<const std::byte> code) {
  const Hash128 checksum = checksum_of(key, code);
  EntryHeader header{{}, checksum.high, checksum.low, key.size(), code.size()};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  std::vector<std::byte> entry(sizeof header + key.size() + code.size());
  std::memcpy(entry.data(), &header, sizeof header);
  std::memcpy(entry.data() + sizeof header, key.data(), key.size());
  if (!code.empty()) std::memcpy(entry.data() + sizeof header + key.size(), code.data(), code.size());
  return entry;
}

std::optional<KernelEntry> decode_kernel_entry(std::span<const std::byte> bytes) {
  EntryHeader header;
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return std::nullopt;
  if (header.key_bytes > kLargestKernelEntry || header.code_bytes > kLargestKernelEntry) return std::nullopt;
  const size_t size = sizeof header + header.key_bytes + header.code_bytes;
  if (bytes.size() < size) return std::nullopt;
  const std::string_view key(reinterpret_cast<const char*>(bytes.data()) + sizeof header, header.key_bytes);
  const std::span<const std::byte> code = bytes.subspan(sizeof header + header.key_bytes, header.code_bytes);
  if (checksum_of(key, code) != Hash128{header.checksum_high, header.checksum_low}) return std::nullopt;
  return KernelEntry{key, code, size};
}

}  // namespace graft
