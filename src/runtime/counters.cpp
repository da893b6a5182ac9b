// SPDX-License-Identifier: Apache-2.0
#include "runtime/counters.h"

#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace graft {
namespace {

constexpr size_t kMostLabels = 1024;

void add_to(RunCounts& sum, const RunCounts& more) {
  sum.runs += more.runs;
  sum.failures += more.failures;
  sum.cancellations += more.cancellations;
  sum.interpreted_steps += more.interpreted_steps;
  sum.nanoseconds += more.nanoseconds;
  sum.arena_bytes += more.arena_bytes;
}

/// Of one writer: no other changes it between the two.
template <class Number>
void grow(std::atomic<Number>& number, Number by) {
  number.store(number.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace

class EngineCounters {
 public:
  void change_engines(int by) {
    const std::lock_guard lock(mutex_);
    engines_ += by;
  }
  void add(const SessionCounters& session) {
    const std::lock_guard lock(mutex_);
    sessions_.insert(&session);
  }
  void remove(const SessionCounters& session) {
    const std::lock_guard lock(mutex_);
    RunCounts last = session.read();
    last.arena_bytes = 0;
    add_to(ended_, last);
    sessions_.erase(&session);
  }
  void read(EngineCounts& counts) const {
    const std::lock_guard lock(mutex_);
    counts.engines = engines_;
    counts.sessions = static_cast<int64_t>(sessions_.size());
    counts.runs = ended_;
    for (const SessionCounters* const session : sessions_) add_to(counts.runs, session->read());
  }

 private:
  mutable std::mutex mutex_;
  int64_t engines_ = 0;
  std::set<const SessionCounters*> sessions_;  // that live
  RunCounts ended_;                            // of the others
};

namespace {

/// By name and device. Nothing is removed: what Prometheus counts does not become less.
struct Registry {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<EngineCounters>> all;
};

Registry& registry() {
  static Registry& one = *new Registry;  // sessions may end while the process does
  return one;
}

EngineCounters& find_counters(const std::string& name, const std::string& device) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  const bool full = known.all.size() >= kMostLabels && !known.all.contains({name, device});
  std::unique_ptr<EngineCounters>& place = known.all[{full ? "other" : name, full ? "" : device}];
  if (!place) place = std::make_unique<EngineCounters>();
  return *place;
}

}  // namespace

CountedEngine::CountedEngine(const std::string& name, const std::string& device)
    : counters_(&find_counters(name, device)) {
  counters_->change_engines(1);
}

CountedEngine::~CountedEngine() { counters_->change_engines(-1); }

SessionCounters::SessionCounters(std::shared_ptr<const CountedEngine> engine) : engine_(std::move(engine)) {
  if (engine_) engine_->counters().add(*this);
}

SessionCounters::~SessionCounters() {
  if (engine_) engine_->counters().remove(*this);
}

void SessionCounters::add(const RunCounts& run) {
  grow(runs_, run.runs);
  grow(failures_, run.failures);
  grow(cancellations_, run.cancellations);
  grow(interpreted_steps_, run.interpreted_steps);
  grow(nanoseconds_, run.nanoseconds);
  arena_bytes_.store(run.arena_bytes, std::memory_order_relaxed);
}

RunCounts SessionCounters::read() const {
  const auto get = [](const auto& number) { return number.load(std::memory_order_relaxed); };
  return {get(runs_), get(failures_), get(cancellations_), get(interpreted_steps_), get(nanoseconds_),
          get(arena_bytes_)};
}

std::vector<EngineCounts> engine_counts() {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  std::vector<EngineCounts> counts;
  for (const auto& [labels, counters] : known.all) {
    counts.push_back({.engine = labels.first, .device = labels.second});
    counters->read(counts.back());
  }
  return counts;
}

}  // namespace graft
