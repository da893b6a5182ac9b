// SPDX-License-Identifier: Apache-2.0
#include "driver/fallbacks.h"

#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "base/log.h"

namespace graft {
namespace {

std::atomic<uint64_t> count = 0;

/// Whether this pair is new.
bool is_first(const std::string& what, const std::string& reason) {
  static std::mutex& mutex = *new std::mutex;  // threads may count while the process ends
  static auto& said = *new std::set<std::pair<std::string, std::string>>;
  const std::lock_guard lock(mutex);
  return said.emplace(what, reason).second;
}

}  // namespace

void count_fallback(const std::string& what, const std::string& reason) {
  count.fetch_add(1, std::memory_order_relaxed);
  if (is_first(what, reason)) log(LogLevel::kWarning, "{} runs in the framework: {}", what, reason);
}

uint64_t fallback_count() { return count.load(std::memory_order_relaxed); }

}  // namespace graft
