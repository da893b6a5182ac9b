// SPDX-License-Identifier: Apache-2.0
#include "import/pt2/archive.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace graft::pt2 {
namespace {

constexpr uint64_t kLocalHeader = 0x04034B50, kCentralHeader = 0x02014B50, kEnd = 0x06054B50;
constexpr uint64_t kWideEnd = 0x06064B50, kWideLocator = 0x07064B50;
constexpr uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kLocatorBytes = 20;
constexpr uint64_t kInExtra = 0xFFFFFFFF;  // the number stands in the extra field
constexpr uint64_t kWideExtra = 1, kLongestComment = 65535;

}  // namespace

Archive::Archive(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string where)
    : bytes_(bytes), owner_(std::move(owner)), where_(std::move(where)) {
  const Directory directory = find_directory();
  uint64_t at = directory.at;
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (uint64_t i = 0; i < directory.count; ++i) {
    check(number(at, 4) == kCentralHeader, "its directory is damaged");
    places.push_back(add_entry(at));
    at += kCentralBytes + number(at + 28, 2) + number(at + 30, 2) + number(at + 32, 2);
  }
  check(at <= directory.end, "its directory is damaged");
  places.emplace_back(directory.at, directory.end);
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i) check(places[i - 1].second <= places[i].first, "its entries share bytes");
}

void Archive::check(bool good, const std::string& what) const {
  GRAFT_USER_CHECK(good, kInvalidModel, what + ": torch.export.save writes what can be read here", where_);
}

std::string_view Archive::text(uint64_t at, uint64_t length) const {
  check(at <= bytes_.size() && length <= bytes_.size() - at, "the archive is cut off");
  return {reinterpret_cast<const char*>(bytes_.data()) + at, length};
}

uint64_t Archive::number(uint64_t at, int width) const {
  const std::string_view digits = text(at, static_cast<uint64_t>(width));
  uint64_t value = 0;
  for (size_t i = digits.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(digits[i]);
  return value;
}

Archive::Directory Archive::find_directory() const {
  check(bytes_.size() >= kEndBytes, "this is no archive");
  const uint64_t last = bytes_.size() - kEndBytes;
  uint64_t end = last + 1;
  for (uint64_t back = 0; back <= std::min(last, kLongestComment) && end > last; ++back) {
    if (number(last - back, 4) == kEnd) end = last - back;
  }
  check(end <= last, "this is no archive, or it is cut off");
  if (end < kLocatorBytes || number(end - kLocatorBytes, 4) != kWideLocator) {
    return {.at = number(end + 16, 4), .count = number(end + 10, 2), .end = end};
  }
  const uint64_t wide = number(end - kLocatorBytes + 8, 8);
  check(number(wide, 4) == kWideEnd, "its directory is damaged");
  return {.at = number(wide + 48, 8), .count = number(wide + 32, 8), .end = wide};
}

std::pair<uint64_t, uint64_t> Archive::add_entry(uint64_t central) {
  const uint64_t name_length = number(central + 28, 2), extra_length = number(central + 30, 2);
  uint64_t packed = number(central + 20, 4), size = number(central + 24, 4), local = number(central + 42, 4);
  std::string name(text(central + kCentralBytes, name_length));
  uint64_t extra = central + kCentralBytes + name_length;
  const uint64_t extra_end = extra + extra_length;
  while (extra + 4 <= extra_end) {
    const uint64_t kind = number(extra, 2), length = number(extra + 2, 2);
    uint64_t next = extra + 4;
    const auto widen = [&](uint64_t& narrow) {
      if (narrow != kInExtra) return;
      check(next + 8 <= extra + 4 + length, "its directory is damaged");
      narrow = number(next, 8), next += 8;
    };
    if (kind == kWideExtra) widen(size), widen(packed), widen(local);
    extra += 4 + length;
  }
  check((number(central + 8, 2) & 1) == 0, fmt::format("the entry '{}' is encrypted", name));
  check(number(central + 10, 2) == 0 && packed == size, fmt::format("the entry '{}' is compressed", name));
  check(number(local, 4) == kLocalHeader, "its directory is damaged");
  const uint64_t begin = local + kLocalBytes + number(local + 26, 2) + number(local + 28, 2);
  text(begin, size);
  const size_t slash = name.find('/');
  if (slash != std::string::npos) name.erase(0, slash + 1);
  check(entries_.emplace(name, bytes_.subspan(begin, size)).second, fmt::format("it has the entry '{}' twice", name));
  return {local, begin + size};
}

std::optional<std::span<const std::byte>> Archive::find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> Archive::names(std::string_view prefix) const {
  std::vector<std::string> found;
  for (auto entry = entries_.lower_bound(prefix); entry != entries_.end() && entry->first.starts_with(prefix);
       ++entry) {
    found.push_back(entry->first);
  }
  return found;
}

}  // namespace graft::pt2
