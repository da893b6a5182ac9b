// SPDX-License-Identifier: Apache-2.0
#include "base/run_limits.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace graft {
namespace {

/// What the thread works under at the moment.
RunLimits& current() {
  static thread_local RunLimits limits;
  return limits;
}

}  // namespace

RunLimits current_limits() { return current(); }

int64_t machine_memory() {
  static const int64_t bytes = [] {
    struct sysinfo info;
    if (::sysinfo(&info) != 0) return kMostBytes;
    const uint64_t total = (uint64_t{info.totalram} + info.totalswap) * info.mem_unit;
    return static_cast<int64_t>(std::min<uint64_t>(total, kMostBytes));
  }();
  return bytes;
}

void MemoryBudget::take(int64_t bytes, std::string_view what, std::string_view name, int64_t most) {
  const int64_t limit = limit_.load(std::memory_order_relaxed);
  const int64_t held = used_.fetch_add(bytes, std::memory_order_relaxed);
  std::string reason;
  if (limit > 0 && bytes > limit - held) {
    reason =
        fmt::format("the session may have {} and holds {}; raise its memory limit or use smaller sizes", limit, held);
  } else if (bytes > most) {
    reason = fmt::format("this machine has {}; use smaller sizes", most);
  } else {
    return;
  }
  give(bytes);
  throw Error(ErrorKind::kOutOfMemory, fmt::format("cannot take {} bytes for {}{}: {}", bytes, what, name, reason),
              "run");
}

void StopSignal::raise() const {
  const bool late = reason_.load(std::memory_order_relaxed) == kDeadline;
  throw Error(ErrorKind::kCancelled, late ? "it took longer than its deadline; set a later one, or use smaller sizes"
                                          : "it was cancelled by the caller",
              "run");
}

LimitScope::LimitScope(std::shared_ptr<MemoryBudget> budget, const StopSignal* stop)
    : budget_(std::exchange(current().budget, std::move(budget))), stop_(std::exchange(current().stop, stop)) {}

LimitScope::~LimitScope() {
  current().budget = std::move(budget_);
  current().stop = stop_;
}

const std::shared_ptr<MemoryBudget>& current_budget() { return current().budget; }

void stop_if_requested() {
  if (const StopSignal* stop = current().stop) stop->check();
}

void throw_no_memory(int64_t bytes, std::string_view what, std::string_view name) {
  throw Error(ErrorKind::kOutOfMemory,
              fmt::format("cannot take {} bytes for {}{}: the system has no more (this machine has {}); free some, or "
                          "use smaller sizes",
                          bytes, what, name, machine_memory()),
              "run");
}

}  // namespace graft
