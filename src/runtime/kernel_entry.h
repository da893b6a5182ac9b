// SPDX-License-Identifier: Apache-2.0
// Compiled code with its key, as files hold it: a header with a checksum, the key, the code.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace graft {

/// An entry in the bytes that it was read from.
struct KernelEntry {
  std::string_view key;
  std::span<const std::byte> code;
  size_t bytes = 0;  ///< of the whole entry
};

/// No entry is larger.
inline constexpr size_t kLargestKernelEntry = size_t{1} << 30;

std::vector<std::byte> encode_kernel_entry(std::string_view key, std::span<const std::byte> code);
/// The entry that the bytes begin with; nothing when they are cut off, damaged or none.
std::optional<KernelEntry> decode_kernel_entry(std::span<const std::byte> bytes);

}  // namespace graft
