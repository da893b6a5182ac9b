// SPDX-License-Identifier: Apache-2.0
#include "base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace graft {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

/// The number behind `key` in a file of lines `key number`; the first word when there is no key.
std::optional<int64_t> read_number(const std::string& path, const std::string& key = "") {
  std::ifstream file(path);
  std::string word;
  int64_t number = 0;
  if (key.empty()) return file >> number ? std::optional(number) : std::nullopt;
  while (file >> word) {
    if (word == key) return file >> number ? std::optional(number) : std::nullopt;
  }
  return std::nullopt;
}

/// What one control group has left; "max" is no limit.
int64_t left_in_group(const std::string& folder) {
  const auto limit = read_number(folder + "/memory.max"), used = read_number(folder + "/memory.current");
  if (!limit || !used) return kUnknown;
  const int64_t droppable = read_number(folder + "/memory.stat", "inactive_file").value_or(0);
  return std::max<int64_t>(*limit - *used + droppable, 0);
}

/// The least that the group of this process and those around it have left.
int64_t left_in_groups() {
  std::ifstream file("/proc/self/cgroup");
  std::string line, path;
  while (std::getline(file, line)) {
    if (line.starts_with("0::")) path = line.substr(3);
  }
  int64_t left = kUnknown;
  for (;;) {
    left = std::min(left, left_in_group("/sys/fs/cgroup" + path));
    if (path.empty()) return left;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

int64_t available_memory() {
  const auto kilobytes = read_number("/proc/meminfo", "MemAvailable:");
  return std::min(kilobytes ? *kilobytes * 1024 : kUnknown, left_in_groups());
}

}  // namespace graft
