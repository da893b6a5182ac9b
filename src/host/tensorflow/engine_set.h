// SPDX-License-Identifier: Apache-2.0
// The engines of one node: for a few ranges of sizes, of which a call takes the tightest that holds its shapes.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "built_engines.h"
#include "run_engine.h"

namespace graft::tensorflow_host {

/// Sizes that an engine takes, by input and axis.
class SizeRanges {
 public:
  explicit SizeRanges(const graft_engine* engine);
  bool hold(const Shapes& shapes) const;
  /// How many sizes they hold, as a measure to compare them by.
  double width() const;

 private:
  struct Axis {
    std::string symbol;       ///< empty: a size that is min, or any where min is negative
    int64_t min = 0, max = 0;  ///< max 0: unbounded
  };
  std::vector<std::vector<Axis>> inputs_;
};

/// Usable from any number of threads. Holds at most so many engines at a time; the one that was used longest ago goes
/// first, and is loaded again when it is needed. What cannot be loaded is tried again on request only.
class EngineSet {
 public:
  EngineSet(std::vector<PlanSource> plans, std::string device, size_t most)
      : plans_(plans.begin(), plans.end()), device_(std::move(device)), most_(most) {}

  /// The engine for these shapes; null where none takes them. What is wrong with a plan where none of the others does.
  absl::StatusOr<std::shared_ptr<LoadedEngine>> find(const Shapes& shapes);
  /// Loads the engine of a plan.
  absl::StatusOr<std::shared_ptr<LoadedEngine>> load(size_t plan);
  size_t size() const { return plans_.size(); }

 private:
  struct Entry {
    explicit Entry(PlanSource given) : plan(std::move(given)) {}
    PlanSource plan;
    std::optional<SizeRanges> ranges = {};  ///< once it has been loaded
    std::shared_ptr<LoadedEngine> engine = {};
    absl::Status failure = {};
    int request = -1;  ///< at which it failed, see retry_failed()
    uint64_t used = 0;
  };
  absl::StatusOr<std::shared_ptr<LoadedEngine>> load(Entry& entry);
  void unload();

  std::mutex mutex_;
  std::vector<Entry> plans_;
  std::string device_;
  size_t most_;
  uint64_t calls_ = 0;
};

}  // namespace graft::tensorflow_host
