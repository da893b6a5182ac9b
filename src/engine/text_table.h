// SPDX-License-Identifier: Apache-2.0
// The texts of a plan (regions, schedules, tile programs), each once, compressed together: they repeat each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

/// Collects texts; equal ones share a number.
class TextTable {
 public:
  uint32_t add(const std::string& text);
  const std::vector<uint32_t>& lengths() const { return lengths_; }
  /// All texts, one after the other, as one zstd frame.
  std::vector<std::byte> compress() const;

 private:
  std::map<std::string, uint32_t, std::less<>> numbers_;
  std::vector<uint32_t> lengths_;
  std::string all_;
};

/// The texts of a frame; nothing when the bytes are not a frame of texts of these lengths, or exceed a ceiling.
std::optional<std::vector<std::string>> decompress_texts(std::span<const std::byte> frame,
                                                         std::span<const uint32_t> lengths);

}  // namespace graft
