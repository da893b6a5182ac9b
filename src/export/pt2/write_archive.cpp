// SPDX-License-Identifier: Apache-2.0
#include "export/pt2/write_archive.h"

#include <array>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/zip_format.h"

namespace graft::pt2 {
namespace {

constexpr std::string_view kFolder = "model/";
constexpr size_t kAlignment = 64, kLocalBytes = 30, kExtraBytes = 4;
constexpr uint64_t kPadding = 0x4246;  // the extra field that torch fills up with

std::string little_endian(std::initializer_list<std::pair<uint64_t, int>> fields) {
  std::string text;
  for (auto [value, width] : fields) {
    for (; width-- > 0; value >>= 8) text += static_cast<char>(value & 0xFF);
  }
  return text;
}

/// CRC-32 as zip has it (ISO 3309).
uint32_t checksum_of(std::span<const std::byte> bytes) {
  static const std::array<uint32_t, 256> kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? 0xEDB88320U : 0);
      table[i] = value;
    }
    return table;
  }();
  uint32_t sum = ~uint32_t{0};
  for (const std::byte each : bytes) sum = kTable[(sum ^ static_cast<uint32_t>(each)) & 0xFF] ^ sum >> 8;
  return ~sum;
}

class ArchiveWriter {
 public:
  explicit ArchiveWriter(const std::string& path) : file_(path), path_(path) {}

  void add(const std::string& name, std::span<const std::byte> bytes) {
    constexpr uint64_t kVersion = 20, kUtf8 = 1 << 11, kFirstOfJanuary1980 = 0x21;
    const std::string title = std::string(kFolder) + name;
    const uint64_t offset = file_.size();
    check(bytes.size() < UINT32_MAX && offset + bytes.size() < UINT32_MAX && ++count_ < UINT16_MAX);
    const size_t begin = offset + kLocalBytes + title.size() + kExtraBytes;
    const std::string padding((kAlignment - begin % kAlignment) % kAlignment, 'Z');
    const std::string extra = little_endian({{kPadding, 2}, {padding.size(), 2}}) + padding;
    const std::string common =
        little_endian({{kVersion, 2}, {kUtf8, 2}, {0, 2}, {0, 2}, {kFirstOfJanuary1980, 2}, {checksum_of(bytes), 4},
                       {bytes.size(), 4}, {bytes.size(), 4}, {title.size(), 2}});
    file_.write(little_endian({{kLocalHeader, 4}}) + common + little_endian({{extra.size(), 2}}) + title + extra);
    file_.write(bytes);
    directory_ += little_endian({{kCentralHeader, 4}, {kVersion, 2}}) + common +
                  little_endian({{0, 2}, {0, 2}, {0, 2}, {0, 2}, {0, 4}, {offset, 4}}) + title;
  }

  void finish() {
    const size_t start = file_.size();
    check(start + directory_.size() < UINT32_MAX);
    file_.write(directory_);
    file_.write(little_endian({{kEndRecord, 4}, {0, 2}, {0, 2}, {count_, 2}, {count_, 2}, {directory_.size(), 4},
                               {start, 4}, {0, 2}}));
    file_.commit();
  }

 private:
  void check(bool fits) const {
    GRAFT_USER_CHECK(fits, kUnsupported, "the archive would have more than 4 GiB, or more than 65534 entries", path_);
  }

  OutputFile file_;
  std::string path_, directory_;
  uint64_t count_ = 0;
};

}  // namespace

void write_archive(const std::string& path, const Archive& archive, const ChangedEntries& changed) {
  ArchiveWriter writer(path);
  for (const std::string& name : archive.names("")) {
    const auto change = changed.find(name);
    if (change == changed.end()) {
      writer.add(name, *archive.find(name));
    } else if (change->second) {
      writer.add(name, std::as_bytes(std::span(*change->second)));
    }
  }
  for (const auto& [name, bytes] : changed) {
    if (bytes && !archive.find(name)) writer.add(name, std::as_bytes(std::span(*bytes)));
  }
  writer.finish();
}

}  // namespace graft::pt2
