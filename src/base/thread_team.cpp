// SPDX-License-Identifier: Apache-2.0
#include "base/thread_team.h"

#include <algorithm>
#include <atomic>

#include <omp.h>
#include <pthread.h>
#include <sched.h>

namespace graft {
namespace {

/// After fork the child has no team threads, and libgomp would wait for them for ever.
std::atomic<bool> forked{false};

bool watch_forks() {
  pthread_atfork(nullptr, nullptr, [] {
    forked = true;
    omp_set_num_threads(1);
  });
  return true;
}

}  // namespace

void parallel_for(int threads, int64_t count, RangeFunction f) {
  static const bool watching = watch_forks();
  if (count <= 0) return;
  const int team = static_cast<int>(std::min<int64_t>(threads, count));
  if (team <= 1 || forked || !watching) {
    f(0, count, 0);
    return;
  }
  // Pieces shrink so that a thread that was held up does not hold up the others.
  std::atomic<int64_t> next{0};
#pragma omp parallel num_threads(team)
  {
    const int thread = omp_get_thread_num();
    while (true) {
      const int64_t done = next.load(std::memory_order_relaxed);
      if (done >= count) break;
      const int64_t piece = std::max<int64_t>(1, (count - done) / (2 * team));
      const int64_t begin = next.fetch_add(piece, std::memory_order_relaxed);
      if (begin >= count) break;
      f(begin, std::min(begin + piece, count), thread);
    }
  }
}

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace graft
