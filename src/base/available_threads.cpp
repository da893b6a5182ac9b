// SPDX-License-Identifier: Apache-2.0
#include "base/available_threads.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string_view>

#include <sched.h>

namespace graft {
namespace {

constexpr int kMostThreads = 1 << 16;

/// The first line of a file; nothing where there is none.
std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? std::optional(line) : std::nullopt;
}

/// `quota` and `period` in microseconds; a quota that is no positive number is no limit.
std::optional<int> threads_of(const std::string& quota, const std::string& period) {
  int64_t time = 0, each = 0;
  if (!(std::istringstream(quota) >> time) || !(std::istringstream(period) >> each)) return std::nullopt;
  if (time <= 0 || each <= 0) return std::nullopt;
  return static_cast<int>(std::clamp<int64_t>((time - 1) / each + 1, 1, kMostThreads));
}

/// The limit of one group of version 2: `max 100000`, or `150000 100000`.
std::optional<int> limit_of_unified(const std::string& folder) {
  const auto line = first_line(folder + "/cpu.max");
  const size_t space = line ? line->find(' ') : std::string::npos;
  return space == std::string::npos ? std::nullopt : threads_of(line->substr(0, space), line->substr(space + 1));
}

/// The limit of one group of version 1, whose quota is -1 where there is none.
std::optional<int> limit_of_controller(const std::string& folder) {
  const auto quota = first_line(folder + "/cpu.cfs_quota_us"), period = first_line(folder + "/cpu.cfs_period_us");
  return quota && period ? threads_of(*quota, *period) : std::nullopt;
}

/// The least limit of a group and those above it. In a container the groups above may be hidden, and the own one may
/// be mounted in the place of the topmost.
template <class Limit>
void bound(std::optional<int>& least, const std::string& mount, std::string group, const Limit& limit_of) {
  while (true) {
    const auto limit = limit_of(mount + group);
    if (limit) least = std::min(limit, least ? least : limit);
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return;
    group.resize(slash);
  }
}

bool names_processor(std::string_view controllers) {
  std::istringstream words{std::string(controllers)};
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "cpu") return true;
  }
  return false;
}

}  // namespace

int threads_by_affinity() {
  // The kernel refuses a mask that is narrower than its own.
  for (int processors = CPU_SETSIZE; processors <= kMostThreads; processors *= 2) {
    cpu_set_t* set = CPU_ALLOC(processors);
    if (!set) return 1;
    const size_t bytes = CPU_ALLOC_SIZE(processors);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const bool narrow = !known && errno == EINVAL;
    const int count = known ? CPU_COUNT_S(bytes, set) : 1;
    CPU_FREE(set);
    if (!narrow) return std::max(1, count);
  }
  return 1;
}

std::optional<int> threads_by_quota(const std::string& root) {
  std::optional<int> least;
  std::ifstream groups(root + "/proc/self/cgroup");
  // `0::/user.slice` of version 2, `4:cpu,cpuacct:/docker/0123` of version 1.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), mount = root + "/sys/fs/cgroup";
    std::string group = line.substr(second + 1);
    while (group.ends_with('/')) group.pop_back();
    if (controllers.empty()) {
      bound(least, mount, group, limit_of_unified);
    } else if (names_processor(controllers)) {
      for (const std::string& folder : {std::string("cpu"), controllers}) {
        bound(least, mount + "/" + folder, group, limit_of_controller);
      }
    }
  }
  return least;
}

int available_threads() { return std::min(threads_by_affinity(), threads_by_quota().value_or(kMostThreads)); }

}  // namespace graft
