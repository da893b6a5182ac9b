// SPDX-License-Identifier: Apache-2.0
// The tuner: measures the ways of the regions that matter and keeps the cost model's unless another is clearly faster.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/record.h"
#include "fuse/fused_program.h"
#include "plan/build_options.h"
#include "plan/tuning_budget.h"
#include "plan/ways.h"

namespace graft {

/// Collects regions, then measures them within the time that the tuning level allows, each different one once, those
/// first where the cost model leaves most to win. What is not measured stays as the cost model chose.
///
///   Tuner tuner(options, typical);
///   tuner.consider(key, task, step, tensors, false, choice);   // choice: the cost model's, for now
///   tuner.run(record);                                  // record.regions[key]: the measured one
class Tuner {
 public:
  /// Both are kept by reference.
  Tuner(const BuildOptions& options, const Bindings& typical) : options_(options), typical_(typical) {}

  /// Sets `choice` to the cost model's favourite and, when tuning, remembers the region to be measured. `compared`: its
  /// time decides about more than its own ways, so it is wanted for a single way and a small region too.
  void consider(const std::string& key, const RegionTask& task, const FusedStep& step,
                const std::vector<FusedTensor>& tensors, bool compared, RegionChoice& choice);
  /// Another step has the same region: it matters more.
  void count_again(const std::string& key);
  /// Measures. A way that fails or cannot be built loses, with the reason.
  void run(Record& record);

 private:
  struct Job {
    std::string key;
    FusedProgram program;           ///< the one step, with the run's sizes as elements of its last input
    std::vector<int64_t> sizes;     ///< those elements
    std::vector<std::string> ways;  ///< the cost model's favourite first
    double gain = 0;                ///< seconds that measuring may win of one run, by the cost model
    int count = 1;
    bool compared = false;
  };

  struct Runners;

  Job make_job(const std::string& key, const FusedStep& step, const std::vector<FusedTensor>& tensors) const;
  std::optional<std::vector<double>> known_times(const Job& job) const;
  /// Makes the candidates of the chosen jobs ready to run, in their order, until so many seconds are spent.
  std::vector<Runners> build(const std::vector<const Job*>& chosen, const TuningBudget& budget, double seconds) const;
  void measure(const Job& job, Runners& runners, RegionChoice& choice);
  TuningClock clock() const { return options_.clock.processor ? options_.clock : clock_of_this_thread(); }
  static void leave(const Job& job, const std::string& reason, RegionChoice& choice);
  void decide(const Job& job, const std::vector<double>& milliseconds, const std::vector<std::string>& failures,
              RegionChoice& choice) const;
  std::string timing_key(const Job& job, const std::string& way) const;

  const BuildOptions& options_;
  const Bindings& typical_;
  std::vector<Job> jobs_;
  double measured_ms_ = 0, disturbed_ms_ = 0;  ///< of one run: of regions that were measured, and with varying times
  std::map<std::string, size_t, std::less<>> by_key_;
};

}  // namespace graft
