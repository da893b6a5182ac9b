// SPDX-License-Identifier: Apache-2.0
#include "base/zip_writer.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "base/zip_format.h"

namespace graft {
namespace {

constexpr uint64_t kVersion = 20, kUtf8 = 1 << 11, kFirstOfJanuary1980 = 0x21;

/// By place in a word of eight bytes and by byte, what it does to the checksum.
constexpr auto kTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320U : 0U);
    tables[0][byte] = value;
  }
  for (size_t place = 1; place < tables.size(); ++place) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[place - 1][byte];
      tables[place][byte] = before >> 8 ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}();

std::string little_endian(std::initializer_list<std::pair<uint64_t, int>> fields) {
  std::string text;
  for (auto [value, width] : fields) {
    for (; width-- > 0; value >>= 8) text += static_cast<char>(value & 0xFF);
  }
  return text;
}

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t value = ~before;
  const auto at = [&](size_t i) { return std::to_integer<uint32_t>(bytes[i]); };
  while (bytes.size() >= 8) {
    value ^= at(0) | at(1) << 8 | at(2) << 16 | at(3) << 24;
    value = kTables[7][value & 0xFF] ^ kTables[6][value >> 8 & 0xFF] ^ kTables[5][value >> 16 & 0xFF] ^
            kTables[4][value >> 24] ^ kTables[3][at(4)] ^ kTables[2][at(5)] ^ kTables[1][at(6)] ^ kTables[0][at(7)];
    bytes = bytes.subspan(8);
  }
  for (const std::byte byte : bytes) value = value >> 8 ^ kTables[0][(value ^ std::to_integer<uint32_t>(byte)) & 0xFF];
  return ~value;
}

ZipWriter::ZipWriter(std::string path) : path_(std::move(path)), file_(path_) {}

void ZipWriter::add(std::string_view name, std::initializer_list<std::span<const std::byte>> parts,
                    std::string_view comment) {
  uint64_t size = 0;
  uint32_t checksum = 0;
  for (const auto part : parts) {
    size += part.size();
    checksum = crc32(part, checksum);
  }
  const uint64_t offset = file_.size();
  GRAFT_USER_CHECK(name.size() <= UINT16_MAX && comment.size() <= UINT16_MAX, kUnsupported,
                   "the name of an entry is too long for a zip archive", path_);
  GRAFT_USER_CHECK(size < UINT32_MAX && offset < UINT32_MAX && count_ < 65534, kUnsupported,
                   "a zip archive holds at most 4 GiB and 65534 entries: write fewer tensors into it", path_);
  const std::string common = little_endian({{kVersion, 2}, {kUtf8, 2}, {0, 2}, {0, 2}, {kFirstOfJanuary1980, 2},
                                            {checksum, 4}, {size, 4}, {size, 4}, {name.size(), 2}, {0, 2}});
  file_.write(little_endian({{kLocalHeader, 4}}) + common + std::string(name));
  for (const auto part : parts) file_.write(part);
  directory_ += little_endian({{kCentralHeader, 4}, {kVersion, 2}}) + common +
                little_endian({{comment.size(), 2}, {0, 2}, {0, 2}, {0, 4}, {offset, 4}});
  directory_ += name;
  directory_ += comment;
  ++count_;
}

void ZipWriter::commit() {
  const uint64_t start = file_.size();
  GRAFT_USER_CHECK(start + directory_.size() < UINT32_MAX, kUnsupported, "a zip archive holds at most 4 GiB", path_);
  file_.write(directory_);
  file_.write(little_endian({{kEndRecord, 4}, {0, 2}, {0, 2}, {count_, 2}, {count_, 2}, {directory_.size(), 4},
                             {start, 4}, {0, 2}}));
  file_.commit();
}

}  // namespace graft
