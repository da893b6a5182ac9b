// SPDX-License-Identifier: Apache-2.0
#include "plan/tuner.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>

#include <fmt/format.h>

#include "base/call_in_parallel.h"
#include "base/error.h"
#include "base/log.h"
#include "plan/build_engine.h"
#include "plan/candidate_times.h"
#include "plan/estimate_ways.h"
#include "plan/sample_tensors.h"
#include "runtime/session.h"

namespace graft {
/// One way of a job, ready to run.
struct Runner : CandidateTimes {
  std::unique_ptr<Session> session;
  std::string failure;
};

namespace {

/// A way must be this much faster than the cost model's to take its place: what noise cannot do.
constexpr double kWinningRatio = 0.95;
/// Above this part of the time that was measured, disturbed regions are worth a warning, but for networks of so few
/// milliseconds in all, whose choices win nothing.
constexpr double kMuchDisturbed = 0.25, kLeastMeasured = 0.1;
/// Regions whose tensors take more are left to the cost model: looking at a model allocates no such memory.
constexpr double kGiB = 1 << 30, kMostSampleBytes = 2 * kGiB;

/// What a tuning level may cost.
struct Effort {
  WayLimits ways;         ///< measured of one region
  size_t rounds;          ///< at most, of one region
  double region_seconds;  ///< at most, of one region
  double seconds;         ///< of all regions, kernels included; a measurement that began is finished
  double share;           ///< regions with a smaller part of what all may win are left to the cost model
};

Effort effort_of(const BuildOptions& options) {
  switch (options.tuning) {
    case Tuning::kOff:
      break;
    case Tuning::kFast:
      return {.ways = {4, 2, options, true},
              .rounds = 15,
              .region_seconds = 0.2,
              .seconds = options.device ? 10.0 : 5.0,
              .share = 0.005};
    case Tuning::kFull:
      return {.ways = {64, 16, options, true}, .rounds = 100, .region_seconds = 3, .seconds = 300, .share = 0};
  }
  return {.ways = {1, 1, options}, .rounds = 0, .region_seconds = 0, .seconds = 0, .share = 1};
}

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

/// The inputs and outputs that all ways of a job run on.
class JobData {
 public:
  JobData(const FusedProgram& program, const std::vector<int64_t>& sizes, const Bindings& typical) {
    const auto make = [&](int tensor, uint64_t seed) {
      const FusedTensor& decl = program.tensors[static_cast<size_t>(tensor)];
      std::vector<int64_t> shape;
      for (const Size& size : decl.shape) shape.push_back(size.evaluate(typical));
      return data_.add(decl.type, shape, seed);
    };
    for (size_t i = 0; i + 1 < program.inputs.size(); ++i) inputs.push_back(make(program.inputs[i], i + 1));
    const auto count = static_cast<int64_t>(sizes.size());
    inputs.push_back(data_.add(TensorData::from_values(DType::kInt64, {count}, sizes)));
    for (const int tensor : program.outputs) outputs.push_back(make(tensor, 0));
  }

  std::vector<BufferView> inputs, outputs;

 private:
  SampleTensors data_;
};

/// Bytes of the tensors that are filled to measure a step.
double sample_bytes(const FusedStep& step, const std::vector<FusedTensor>& tensors, const Bindings& typical) {
  double total = 0;
  for (const std::vector<int>* list : {&step.inputs, &step.outputs}) {
    for (const int tensor : *list) {
      const FusedTensor& decl = tensors[static_cast<size_t>(tensor)];
      double bytes = bit_width(decl.type) / 8.0;
      for (const Size& size : decl.shape) bytes *= static_cast<double>(size.evaluate(typical));
      total += bytes;
    }
  }
  return total;
}

/// Why a step cannot be measured at the usual sizes; empty where it can. Nobody need have stated them, so that what is
/// cut off an axis may be more than it has.
std::string why_not_measured(const FusedStep& step, const std::vector<FusedTensor>& tensors, const Bindings& typical) {
  for (const std::vector<int>* list : {&step.inputs, &step.outputs}) {
    for (const int tensor : *list) {
      if (!tensors[static_cast<size_t>(tensor)].handles.empty()) return "not measured: it moves strings";
      for (const Size& size : tensors[static_cast<size_t>(tensor)].shape) {
        if (size.evaluate(typical) < 0) return "not measured: a size is negative at the usual ones, which --dim states";
      }
    }
  }
  if (sample_bytes(step, tensors, typical) <= kMostSampleBytes) return "";
  return fmt::format("not measured: it would take more than {:.0f} GiB", kMostSampleBytes / kGiB);
}

/// Builds the job's program in one way; what goes wrong is the way's failure.
void build_runner(Runner& runner, const FusedProgram& program, const Record& record, BuildOptions options) {
  options.tuning = Tuning::kOff;
  options.record = &record;
  options.packed = nullptr;
  options.progress = nullptr;
  options.keep_references = false;
  options.libraries.refuses = nullptr;  // asked when the way was found
  try {
    auto engine = std::make_shared<const Engine>(build_candidate(program, options).engine);
    GRAFT_CHECK(engine->steps.size() == 1, "a step fell apart while it was measured");
    const EngineStep& step = engine->steps[0];
    if (step.kind == StepKind::kInterpreter) {
      runner.failure = step.candidates.empty() ? "it has no code" : step.candidates.back().reason;
      return;
    }
    runner.session = std::make_unique<Session>(load_code(std::move(engine), options.libraries.source, options.device));
  } catch (const Error& error) {
    runner.failure = error.what();
  }
}

/// Milliseconds of one run on this CPU.
double run_here(Runner& runner, JobData& data) {
  const auto start = std::chrono::steady_clock::now();
  const Status status = runner.session->run(data.inputs, data.outputs);
  if (!status.ok()) runner.failure = status.message();
  return milliseconds_since(start);
}

/// Milliseconds on a device, where data stays between runs: a run is replayed as often as fills some milliseconds.
double run_on_device(Runner& runner) {
  constexpr double kMilliseconds = 3;
  const double last = runner.milliseconds.empty() ? 1 : std::max(runner.milliseconds.back(), 1e-3);
  double milliseconds = 0;
  const Status status =
      runner.session->time_steps(static_cast<int>(std::clamp(kMilliseconds / last, 2.0, 500.0)), milliseconds);
  if (!status.ok()) runner.failure = status.message();
  return milliseconds;
}

/// Runs the candidates in turn, so that what disturbs the machine disturbs them all.
void run_in_turn(std::vector<Runner>& runners, JobData& data, const Effort& effort, TuningBudget budget,
                 bool on_device) {
  double best = 0;  // median, or the first run
  for (size_t round = 0; round < effort.rounds; ++round) {
    for (Runner& runner : runners) {
      if (!runner.failure.empty() || runner.is_too_slow(best)) continue;
      // The first run of a way also prepares it; the second counts.
      for (int run = round == 0 ? 0 : 1; run < 2 && runner.failure.empty(); ++run) {
        const double milliseconds = on_device && run == 1 ? run_on_device(runner) : run_here(runner, data);
        if (run == 1) runner.milliseconds.push_back(milliseconds);
        if (run == 0 && !on_device && best > 0 && milliseconds > 10 * kFarTooSlow * best) {
          runner.milliseconds.push_back(milliseconds);
          break;
        }
      }
      if (runner.failure.empty()) best = best == 0 ? runner.median() : std::min(best, runner.median());
    }
    if (round >= kFirstRounds && budget.spent_seconds() > effort.region_seconds) return;
  }
}

}  // namespace

void Tuner::consider(const std::string& key, const RegionTask& task, const FusedStep& step,
                     const std::vector<FusedTensor>& tensors, bool compared, RegionChoice& choice) {
  choice.way = "interpreter";
  std::vector<std::string> names;
  double expected = 0;  // of the favourite
  for (Way& way : ways_of(task, typical_, effort_of(options_).ways)) {
    if (!way.reason.empty()) {
      choice.lost.push_back({way.name, 0, way.reason});
    } else {
      if (names.empty()) expected = estimated_seconds(*task.region, way, typical_, options_.target);
      names.push_back(way.name);
    }
  }
  if (names.empty()) return;
  choice.way = names[0];
  const bool fixed = !step.count_symbol.empty();
  if (options_.tuning == Tuning::kOff || (names.size() < 2 && !compared) || fixed) return;
  if (const std::string reason = why_not_measured(step, tensors, typical_); !reason.empty()) {
    for (size_t w = 1; w < names.size(); ++w) choice.lost.push_back({names[w], 0, reason});
    return;
  }
  Job job = make_job(key, step, tensors);
  job.compared = compared;
  // Among the ways of one region none is expected to take less than half of what the favourite does.
  job.gain = std::min(expected - least_seconds(*task.region, typical_, options_.target), expected / 2);
  job.ways = std::move(names);
  by_key_[key] = jobs_.size();
  jobs_.push_back(std::move(job));
}

void Tuner::count_again(const std::string& key) {
  if (const auto it = by_key_.find(key); it != by_key_.end()) ++jobs_[it->second].count;
}

/// The step as a program of its own. Its symbols are read from the elements of one more input, since the shapes of its
/// tensors may hold them only inside of sums.
Tuner::Job Tuner::make_job(const std::string& key, const FusedStep& step,
                           const std::vector<FusedTensor>& tensors) const {
  Job job{.key = key};
  FusedStep alone = step;
  alone.inputs.clear();
  alone.outputs.clear();
  alone.sources.clear();
  alone.checks.clear();
  const auto add = [&](int tensor) {
    FusedTensor copy = tensors[tensor];
    copy.alias_of = -1;
    copy.name = fmt::format("t{}", job.program.tensors.size());
    job.program.tensors.push_back(std::move(copy));
    return static_cast<int>(job.program.tensors.size()) - 1;
  };
  for (const int tensor : step.inputs) {
    alone.inputs.push_back(add(tensor));
    if (!tensors[tensor].constant) job.program.inputs.push_back(alone.inputs.back());
  }
  for (const int tensor : step.outputs) alone.outputs.push_back(add(tensor));
  job.program.outputs = alone.outputs;
  std::set<std::string, std::less<>> symbols;
  for (const TensorDecl& decl : step.region.tensors) {
    for (const Size& size : decl.shape) size.collect_symbols(symbols);
  }
  const int place = static_cast<int>(job.program.tensors.size());
  for (const std::string& symbol : symbols) {
    alone.sources.push_back({symbol, place, static_cast<int64_t>(job.sizes.size())});
    job.sizes.push_back(typical_.at(symbol));
    job.program.symbol_ranges[symbol] = {.min = 0, .opt = typical_.at(symbol), .max = 0};
  }
  const Size count(static_cast<int64_t>(job.sizes.size()));
  job.program.tensors.push_back({"sizes", DType::kInt64, {count}, std::nullopt, -1});
  job.program.inputs.push_back(place);
  job.program.steps = {std::move(alone)};
  return job;
}

/// The candidates of one job.
struct Tuner::Runners {
  std::vector<Runner> ways;
  std::atomic<size_t> built{0};

  bool ready() const { return !ways.empty() && built == ways.size(); }
};

std::vector<Tuner::Runners> Tuner::build(const std::vector<const Job*>& chosen, const TuningBudget& budget,
                                         double seconds) const {
  std::vector<Runners> all(chosen.size());
  std::vector<std::pair<size_t, size_t>> tasks;  // job, way
  for (size_t j = 0; j < chosen.size(); ++j) {
    if (known_times(*chosen[j])) continue;
    all[j].ways = std::vector<Runner>(chosen[j]->ways.size());
    for (size_t w = 0; w < chosen[j]->ways.size(); ++w) tasks.emplace_back(j, w);
  }
  call_in_parallel(tasks.size(), compiling_threads(options_), [&](size_t task) {
    const auto [j, w] = tasks[task];
    if (budget.spent_seconds() > seconds) return;
    const Job& job = *chosen[j];
    Record record{.target = "", .regions = {}};
    record.regions[job.key].way = job.ways[w];
    build_runner(all[j].ways[w], job.program, record, options_);
    ++all[j].built;
  });
  return all;
}

void Tuner::run(Record& record) {
  const Effort effort = effort_of(options_);
  const auto gain = [](const Job& job) { return job.count * job.gain; };
  double whole = 0;
  for (const Job& job : jobs_) whole += gain(job);
  std::stable_sort(jobs_.begin(), jobs_.end(), [&](const Job& a, const Job& b) { return gain(a) > gain(b); });
  const auto matters = [&](const Job& job) { return job.compared || gain(job) >= effort.share * whole; };
  TuningBudget budget(clock());
  // On a device that is not this CPU, all candidates are compiled first and at once.
  const size_t together = options_.device ? jobs_.size() : 1;
  for (size_t first = 0; first < jobs_.size(); first += together) {
    std::vector<const Job*> chosen;
    for (size_t j = first; j < std::min(first + together, jobs_.size()); ++j) {
      if (matters(jobs_[j])) chosen.push_back(&jobs_[j]);
    }
    std::vector<Runners> runners = build(chosen, budget, options_.device ? effort.seconds / 2 : effort.seconds);
    if (options_.device) budget.count_wall();
    for (size_t c = 0; c < chosen.size(); ++c) {
      RegionChoice& choice = record.regions[chosen[c]->key];
      const auto done = static_cast<int>(chosen[c] - jobs_.data());
      if (options_.progress) options_.progress("measure " + choice.step, done, static_cast<int>(jobs_.size()));
      if (known_times(*chosen[c]) || (runners[c].ready() && budget.spent_seconds() < effort.seconds)) {
        measure(*chosen[c], runners[c], choice);
      } else {
        leave(*chosen[c], "not measured: the time for tuning was over", choice);
      }
      runners[c].ways.clear();  // and the memory that they hold
    }
  }
  for (const Job& job : jobs_) {
    if (!matters(job)) leave(job, "not measured: too small a part of the work", record.regions[job.key]);
  }
  jobs_.clear();
  if (measured_ms_ > kLeastMeasured && disturbed_ms_ > kMuchDisturbed * measured_ms_) {
    log(LogLevel::kWarning,
        "tuning: the times of regions that take {:.0f} % of a run vary by more than {:.0f} %: other work is running, "
        "or the machine throttles, and another compilation may choose otherwise",
        100 * disturbed_ms_ / measured_ms_, 100 * (kDisturbed - 1));
  }
}

void Tuner::leave(const Job& job, const std::string& reason, RegionChoice& choice) {
  for (size_t w = 1; w < job.ways.size(); ++w) choice.lost.push_back({job.ways[w], 0, reason});
}

std::string Tuner::timing_key(const Job& job, const std::string& way) const {
  return fmt::format("{} {} {} {}", static_cast<int>(options_.tuning), print(options_.target), job.key, way);
}

std::optional<std::vector<double>> Tuner::known_times(const Job& job) const {
  std::vector<std::string> keys;
  for (const std::string& way : job.ways) keys.push_back(timing_key(job, way));
  return options_.timings.find_all(keys);
}

void Tuner::measure(const Job& job, Runners& built, RegionChoice& choice) {
  if (const auto known = known_times(job)) {
    return decide(job, *known, std::vector<std::string>(known->size()), choice);
  }
  std::vector<Runner>& runners = built.ways;
  JobData data(job.program, job.sizes, typical_);
  TuningBudget budget(clock());
  if (options_.device) budget.count_wall();
  run_in_turn(runners, data, effort_of(options_), std::move(budget), options_.device != nullptr);
  std::vector<double> milliseconds;
  std::vector<std::string> failures;
  for (size_t w = 0; w < runners.size(); ++w) {
    milliseconds.push_back(runners[w].median());
    failures.push_back(runners[w].failure);
    if (failures.back().empty() && options_.timings.store) {
      options_.timings.store(timing_key(job, job.ways[w]), milliseconds.back());
    }
  }
  decide(job, milliseconds, failures, choice);
  const double spent = job.count * choice.milliseconds;
  measured_ms_ += spent;
  const auto chosen = std::find(job.ways.begin(), job.ways.end(), choice.way);
  const bool disturbed = chosen != job.ways.end() && runners[chosen - job.ways.begin()].was_disturbed();
  if (disturbed) disturbed_ms_ += spent;
}

/// The fastest way, unless the cost model's favourite is as fast within what noise can do.
void Tuner::decide(const Job& job, const std::vector<double>& milliseconds, const std::vector<std::string>& failures,
                   RegionChoice& choice) const {
  size_t best = failures[0].empty() ? 0 : job.ways.size();
  for (size_t w = 0; w < job.ways.size(); ++w) {
    if (!failures[w].empty()) continue;
    const double bar = best == 0 ? kWinningRatio : 1.0;
    if (best == job.ways.size() || milliseconds[w] < bar * milliseconds[best]) best = w;
  }
  if (best == job.ways.size()) return;
  choice.way = job.ways[best];
  choice.milliseconds = milliseconds[best];
  for (size_t w = 0; w < job.ways.size(); ++w) {
    if (w == best) continue;
    std::string reason = failures[w];
    if (reason.empty() && milliseconds[w] < milliseconds[best]) {
      reason = "not faster by 5 % than the cost model's choice";
    } else if (reason.empty()) {
      reason = fmt::format("{:.2f} times slower", milliseconds[w] / milliseconds[best]);
    }
    choice.lost.push_back({job.ways[w], milliseconds[w], reason});
  }
  log(LogLevel::kChoice, "{}: {} in {:.4f} ms", choice.step, choice.way, choice.milliseconds);
}

}  // namespace graft
