// SPDX-License-Identifier: Apache-2.0
// Writing zip archives (PKWARE's APPNOTE 6.3) whose entries are stored as they are, as numpy and MXNet read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"

namespace graft {

/// Zip's checksum of what follows bytes of the checksum `before`.
uint32_t crc32(std::span<const std::byte> bytes, uint32_t before = 0);

/// Writes an archive, whole or not at all. Neither the time nor the system is recorded: the same entries give the same
/// file. Throws unsupported naming the path for what a zip archive without extensions cannot hold.
///
///   ZipWriter archive("weights.npz");
///   archive.add("w.npy", {header, data});
///   archive.commit();
class ZipWriter {
 public:
  explicit ZipWriter(std::string path);
  /// Adds an entry of these parts, one behind the other.
  void add(std::string_view name, std::initializer_list<std::span<const std::byte>> parts,
           std::string_view comment = {});
  void commit();

 private:
  std::string path_;
  OutputFile file_;
  std::string directory_;
  uint64_t count_ = 0;
};

}  // namespace graft
