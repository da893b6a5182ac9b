// SPDX-License-Identifier: Apache-2.0
// What the runs of this process count, by engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace graft {

/// Numbers of runs. All but the last only grow.
struct RunCounts {
  uint64_t runs = 0;               ///< that succeeded
  uint64_t failures = 0;           ///< that failed, without those that were cancelled
  uint64_t cancellations = 0;      ///< by a caller or a deadline
  uint64_t interpreted_steps = 0;  ///< steps that the interpreter ran, as they have no kernel
  uint64_t nanoseconds = 0;        ///< in runs, however they ended; on a GPU until the work was queued
  int64_t arena_bytes = 0;         ///< memory of intermediate results, by the last run of each session that lives
};

/// The counts of all engines with one name on one device.
struct EngineCounts {
  std::string engine, device;
  int64_t engines = 0, sessions = 0;  ///< that live
  RunCounts runs;
};

/// What is counted of all engines with one name on one device. Safe from any thread.
class EngineCounters;

/// An engine that is counted while it lives.
class CountedEngine {
 public:
  /// `name`, `device`: the labels. Beyond a thousand pairs, more count as engine `other`, so that the process does not
  /// grow by them.
  CountedEngine(const std::string& name, const std::string& device);
  ~CountedEngine();
  CountedEngine(const CountedEngine&) = delete;
  CountedEngine& operator=(const CountedEngine&) = delete;
  EngineCounters& counters() const { return *counters_; }

 private:
  EngineCounters* counters_;
};

/// The counts of a session, which the thread that runs it writes and others read: without a lock, and on cache lines of
/// its own.
class alignas(64) SessionCounters {
 public:
  /// `engine` null: counts for nobody.
  explicit SessionCounters(std::shared_ptr<const CountedEngine> engine);
  ~SessionCounters();
  SessionCounters(const SessionCounters&) = delete;
  SessionCounters& operator=(const SessionCounters&) = delete;

  bool counts() const { return engine_ != nullptr; }
  /// Adds a run and says what its session holds now.
  void add(const RunCounts& run);
  RunCounts read() const;

 private:
  std::shared_ptr<const CountedEngine> engine_;
  std::atomic<uint64_t> runs_{0}, failures_{0}, cancellations_{0}, interpreted_steps_{0}, nanoseconds_{0};
  std::atomic<int64_t> arena_bytes_{0};
};

/// All that was counted so far, in the order of names and devices.
std::vector<EngineCounts> engine_counts();

}  // namespace graft
