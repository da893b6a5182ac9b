// SPDX-License-Identifier: Apache-2.0
#include "support/stored_archive.h"

#include <cstdint>

namespace graft::test {
namespace {

std::string number(uint64_t value, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(i < 8 ? value >> (8 * i) & 0xFF : 0);
  return bytes;
}

}  // namespace

std::string stored_archive(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string archive, directory;
  for (const auto& [name, content] : entries) {
    // flags, method, time, date, checksum (which nobody compares: weights are not read through), sizes, lengths
    const std::string common = number(0, 12) + number(content.size(), 4) + number(content.size(), 4) +
                               number(name.size(), 2) + number(0, 2);
    directory += number(0x02014B50, 4) + number(20, 2) + number(20, 2) + common + number(0, 10) +
                 number(archive.size(), 4) + name;
    archive += number(0x04034B50, 4) + number(20, 2) + common + name + content;
  }
  const std::string count = number(entries.size(), 2);
  return archive + directory + number(0x06054B50, 4) + number(0, 4) + count + count + number(directory.size(), 4) +
         number(archive.size(), 4) + number(0, 2);
}

}  // namespace graft::test
