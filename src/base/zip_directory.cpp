// SPDX-License-Identifier: Apache-2.0
#include "base/zip_directory.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/zip_format.h"

namespace graft {
namespace {

/// Every read is checked.
class DirectoryReader {
 public:
  DirectoryReader(std::span<const std::byte> bytes, const std::string& where, const std::string& remedy)
      : bytes_(bytes), where_(where), remedy_(remedy) {}

  std::vector<ZipEntry> read() {
    const uint64_t end = find_end_record();
    const uint32_t count = number(end + 10, 2);
    uint64_t at = number(end + 16, 4);
    std::vector<std::pair<uint64_t, uint64_t>> places = {{at, end}};  // from and to where something lies
    for (uint32_t i = 0; i < count; ++i) {
      check(number(at, 4) == kCentralHeader, "the directory is damaged");
      places.push_back(add_entry(at));
      at += kCentralBytes + number(at + 28, 2) + number(at + 30, 2) + number(at + 32, 2);
    }
    check(at <= end, "the directory is damaged");
    std::sort(places.begin(), places.end());
    for (size_t i = 1; i < places.size(); ++i) {
      check(places[i - 1].second <= places[i].first, "entries of the archive share bytes");
    }
    return std::move(entries_);
  }

 private:
  void check(bool good, const std::string& what) const {
    GRAFT_USER_CHECK(good, kInvalidArgument, fmt::format("{}; {}", what, remedy_), where_);
  }
  std::string_view text(uint64_t at, uint64_t length) const {
    check(at <= bytes_.size() && length <= bytes_.size() - at, "the archive is cut off");
    return {reinterpret_cast<const char*>(bytes_.data()) + at, length};
  }
  uint32_t number(uint64_t at, int width) const {
    uint32_t value = 0;
    const std::string_view digits = text(at, width);
    for (int i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(digits[i]);
    return value;
  }

  /// The end record is followed by a comment of at most 65535 bytes.
  uint64_t find_end_record() const {
    check(bytes_.size() >= kEndBytes, "this is no .npz file");
    const uint64_t last = bytes_.size() - kEndBytes;
    for (uint64_t back = 0; back <= last && back <= 65535; ++back) {
      if (number(last - back, 4) == kEndRecord) return last - back;
    }
    check(false, "this is no .npz file, or it is cut off");
    return 0;
  }

  /// The entry at `central` of the directory is noted; gives where its local header and its data lie.
  std::pair<uint64_t, uint64_t> add_entry(uint64_t central) {
    ZipEntry entry;
    const uint32_t flags = number(central + 8, 2), method = number(central + 10, 2);
    const uint32_t packed = number(central + 20, 4), local = number(central + 42, 4);
    const uint32_t name_length = number(central + 28, 2), extra_length = number(central + 30, 2);
    entry.name = text(central + kCentralBytes, name_length);
    entry.comment = text(central + kCentralBytes + name_length + extra_length, number(central + 32, 2));
    entry.checksum = number(central + 16, 4);
    entry.size = number(central + 24, 4);
    check(packed != UINT32_MAX && entry.size != UINT32_MAX && local != UINT32_MAX,
          fmt::format("the entry '{}' has 4 GiB or more: save it as .npy", entry.name));
    check(method == 0 || method == 8, fmt::format("compression method {} is unknown", method));
    check((flags & 1) == 0, "an entry is encrypted");
    entry.deflated = method == 8;
    check(entry.deflated ? entry.size <= packed * kMaxGrowth + 64 : packed == entry.size, "the directory is damaged");
    check(number(local, 4) == kLocalHeader, "the directory is damaged");
    const uint64_t begin = uint64_t{local} + kLocalBytes + number(local + 26, 2) + number(local + 28, 2);
    entry.data = text(begin, packed);
    entries_.push_back(std::move(entry));
    return {local, begin + packed};
  }

  std::span<const std::byte> bytes_;
  const std::string &where_, &remedy_;
  std::vector<ZipEntry> entries_;
};

}  // namespace

std::vector<ZipEntry> read_zip_directory(std::span<const std::byte> archive, const std::string& where,
                                         const std::string& remedy) {
  return DirectoryReader(archive, where, remedy).read();
}

}  // namespace graft
