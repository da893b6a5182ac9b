// SPDX-License-Identifier: Apache-2.0
#include "built_engines.h"

#include <algorithm>
#include <atomic>

namespace graft::tensorflow_host {
namespace {

std::atomic<int> requests = 0;
std::atomic<uint64_t> builds = 0;

std::shared_ptr<LoadedEngine> counted(const BuiltEngines::Build& build, const ShapeRanges& ranges) {
  auto engine = build(ranges);
  ++builds;
  return engine;
}

}  // namespace

void retry_failed() { ++requests; }
int retries() { return requests; }
uint64_t build_count() { return builds; }

bool ShapeRanges::is_like(const Shapes& shapes) const {
  return std::equal(shapes.begin(), shapes.end(), least.begin(), least.end(),
                    [](const auto& one, const auto& other) { return one.size() == other.size(); });
}

bool ShapeRanges::hold(const Shapes& shapes) const {
  if (!is_like(shapes)) return false;
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (size_t axis = 0; axis < shapes[i].size(); ++axis) {
      if (shapes[i][axis] < least[i][axis] || shapes[i][axis] > most[i][axis]) return false;
    }
  }
  return true;
}

ShapeRanges ShapeRanges::with(const Shapes& shapes) const {
  ShapeRanges made = *this;
  made.usual = shapes;
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (size_t axis = 0; axis < shapes[i].size(); ++axis) {
      made.least[i][axis] = std::min(made.least[i][axis], shapes[i][axis]);
      made.most[i][axis] = std::max(made.most[i][axis], shapes[i][axis]);
    }
  }
  return made;
}

void BuiltEngines::check_request() {
  if (failure_ && request_ != retries()) failure_.reset();
  if (failure_) throw Error(*failure_);
}

std::shared_ptr<LoadedEngine> BuiltEngines::find(const Shapes& shapes, const Build& build) {
  const std::lock_guard lock(mutex_);
  Entry* best = nullptr;
  for (Entry& entry : entries_) {
    if (!entry.ranges.hold(shapes)) continue;
    if (!best || entry.ranges.is_exact()) best = &entry;
  }
  if (!best) {
    check_request();
    try {
      best = &entries_.emplace_back(make(shapes, build));
    } catch (const Error& failure) {
      failure_ = std::make_unique<Error>(failure), request_ = retries();
      throw;
    }
  }
  best->used = ++calls_;
  return best->engine;
}

BuiltEngines::Entry BuiltEngines::make(const Shapes& shapes, const Build& build) {
  ShapeRanges ranges = ShapeRanges::exactly(shapes);
  if (entries_.size() >= most_) {
    const auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                         [](const Entry& one, const Entry& other) { return one.used < other.used; });
    if (widens_ && oldest->ranges.is_like(shapes)) ranges = oldest->ranges.with(shapes);
    entries_.erase(oldest);  // before another takes memory
  }
  if (!ranges.is_exact()) {
    try {
      return {ranges, counted(build, ranges)};
    } catch (const Error&) {  // what has fixed sizes may work where a range does not
      widens_ = false;
    }
  }
  ranges = ShapeRanges::exactly(shapes);
  return {ranges, counted(build, ranges)};
}

bool BuiltEngines::refused(const LoadedEngine& engine) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.engine.get() == &engine; });
  if (found == entries_.end() || found->ranges.is_exact()) return false;
  entries_.erase(found);
  widens_ = false;
  return true;
}

}  // namespace graft::tensorflow_host
