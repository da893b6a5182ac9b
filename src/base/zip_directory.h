// SPDX-License-Identifier: Apache-2.0
// The directory of a zip archive (PKWARE's APPNOTE 6.3), as far as numpy and MXNet write them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

/// An entry; all numbers are checked.
struct ZipEntry {
  std::string name, comment;
  bool deflated = false;
  uint32_t checksum = 0;
  uint64_t size = 0;  ///< unpacked
  std::string_view data;
};

/// Entries lie one behind the other, so that what they unpack to is bounded by what the archive has. Throws
/// invalid_argument naming `where` and ending with the remedy.
std::vector<ZipEntry> read_zip_directory(std::span<const std::byte> archive, const std::string& where,
                                         const std::string& remedy);

}  // namespace graft
