// SPDX-License-Identifier: Apache-2.0
// The zip archives that torch writes: entries lie in them as they are, so that weights stay where the file has them.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graft::pt2 {

/// The directory of an archive (PKWARE's APPNOTE 6.3, with its 64-bit records), read once; entries are views.
class Archive {
 public:
  /// `owner` keeps the bytes alive. Throws invalid_model naming `where` for what is no archive, is cut off, or whose
  /// entries are compressed, encrypted or overlap.
  Archive(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string where);

  /// The bytes of an entry, by its name below the archive's one folder; nothing where there is none.
  std::optional<std::span<const std::byte>> find(std::string_view name) const;
  /// Those that begin so, in order.
  std::vector<std::string> names(std::string_view prefix) const;
  const std::shared_ptr<const void>& owner() const { return owner_; }
  const std::string& where() const { return where_; }

 private:
  void check(bool good, const std::string& what) const;
  uint64_t number(uint64_t at, int width) const;
  std::string_view text(uint64_t at, uint64_t length) const;
  struct Directory {
    uint64_t at = 0, count = 0, end = 0;
  };
  Directory find_directory() const;
  /// Notes the entry at `central`; gives where its header and bytes lie.
  std::pair<uint64_t, uint64_t> add_entry(uint64_t central);

  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::string where_;
  std::map<std::string, std::span<const std::byte>, std::less<>> entries_;
};

}  // namespace graft::pt2
