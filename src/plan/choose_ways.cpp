// SPDX-License-Identifier: Apache-2.0
#include "plan/choose_ways.h"

#include <limits>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "fuse/rewrite_region.h"
#include "plan/estimate_ways.h"
#include "plan/move_taps.h"
#include "plan/split_for_library.h"
#include "plan/tuner.h"
#include "plan/ways.h"

namespace graft {
namespace {

/// The normalised region of a step, and the name that records know it by.
struct Judged {
  Judged(const FusedStep& step, const std::vector<FusedTensor>& tensors, const Bindings& typical,
         const BuildOptions& options)
      : region(step.region) {
    normalise(region, {.disabled = options.disabled});
    task = task_of(region, step, tensors);
    key = region_key(task, typical);
  }
  Judged(const Judged&) = delete;
  Judged& operator=(const Judged&) = delete;

  Region region;
  RegionTask task;
  std::string key;
};

/// A step that may also be done as the parts that stand in its place.
struct CutStep {
  FusedStep whole;
  std::string key;
  std::vector<std::string> parts;  ///< their keys
  size_t first = 0;                ///< step of the program
  double gain = 1;                 ///< how many times faster than the whole they are, by the cost model
};

class WayChooser {
 public:
  WayChooser(FusedProgram& program, const Bindings& typical, const BuildOptions& options, Record& record)
      : program_(program), typical_(typical), options_(options), record_(record), tuner_(options, typical) {}

  void run() {
    cut_steps();
    for (const CutStep& cut : cuts_) {
      consider(cut.whole, true);
      for (size_t part = 0; part < cut.parts.size(); ++part) consider(program_.steps[cut.first + part], true);
    }
    for (const FusedStep& step : program_.steps) {
      if (!step.region.forms.empty()) consider(step, false);
    }
    tuner_.run(record_);
    decide_cuts();
  }

 private:
  /// Cuts steps behind what libraries do of them, or between the channels and the taps of windows: as the record says,
  /// or to be measured, or as the cost model expects.
  void cut_steps() {
    std::vector<FusedStep> steps;
    for (FusedStep& step : program_.steps) {
      stop_if_cancelled(options_, step.name);
      for (FusedStep& part : cut_step(std::move(step), steps.size())) steps.push_back(std::move(part));
    }
    program_.steps = std::move(steps);
  }

  /// The step, which will be the program's step `first`, or its parts.
  std::vector<FusedStep> cut_step(FusedStep step, size_t first) {
    if (step.region.forms.empty()) return {std::move(step)};
    const Judged whole(step, program_.tensors, typical_, options_);
    const std::string known = recorded(whole.key);
    if (!known.empty() && known != kInParts) return {std::move(step)};
    std::vector<FusedStep> parts = split_for_library(step, program_.tensors, typical_, options_);
    const bool for_library = parts.size() > 1;
    if (!for_library) parts = move_taps(step, program_.tensors);
    if (parts.size() == 1) return parts;
    const double gain = for_library ? cut_gain(whole, parts) : expected_gain(whole, parts);
    if (known.empty() && options_.tuning != Tuning::kOff) {
      constexpr double kWorthMeasuring = 0.7;
      if (gain < kWorthMeasuring) return {std::move(step)};
      CutStep cut{.whole = step, .key = whole.key, .parts = {}, .first = first, .gain = gain};
      for (const FusedStep& part : parts) cut.parts.push_back(Judged(part, program_.tensors, typical_, options_).key);
      cuts_.push_back(std::move(cut));
      return parts;
    }
    if (known.empty() && gain <= 1) return {std::move(step)};
    RegionChoice& choice = record_.regions[whole.key];
    if (!known.empty()) choice = options_.record->regions.at(whole.key);
    choice.step = step.name;
    choice.way = kInParts;
    return parts;
  }

  /// The way that the record names for a region; empty when it knows none.
  std::string recorded(const std::string& key) const {
    if (!options_.record) return "";
    const auto known = options_.record->regions.find(key);
    return known == options_.record->regions.end() ? "" : known->second.way;
  }

  /// How many times faster what is cut for a library should be. On a GPU a rule says so.
  double cut_gain(const Judged& whole, const std::vector<FusedStep>& parts) const {
    if (options_.target.kind == TargetKind::kCuda) {
      const bool cuts = is_worth_splitting(whole.region, typical_) &&
                        !favours_split_products(whole.task, typical_, options_);
      return cuts ? 2 : 1;
    }
    return expected_gain(whole, parts);
  }

  /// How many times faster the cost model expects the parts to be than the whole.
  double expected_gain(const Judged& whole, const std::vector<FusedStep>& parts) const {
    double seconds = 0;
    for (const FusedStep& part : parts) seconds += seconds_of(Judged(part, program_.tensors, typical_, options_));
    return seconds_of(whole) / seconds;
  }

  /// What the cost model's favourite for a region takes.
  double seconds_of(const Judged& judged) const {
    for (const Way& way : ways_of(judged.task, typical_, {.generated = 1, .library = 1, .options = options_})) {
      if (way.reason.empty()) return estimated_seconds(judged.region, way, typical_, options_.target);
    }
    return std::numeric_limits<double>::infinity();
  }

  void consider(const FusedStep& step, bool compared) {
    stop_if_cancelled(options_, step.name);
    const Judged judged(step, program_.tensors, typical_, options_);
    if (record_.regions.contains(judged.key)) return tuner_.count_again(judged.key);
    RegionChoice& choice = record_.regions[judged.key];
    choice.step = step.name;
    if (use_record(judged, choice)) return;
    tuner_.consider(judged.key, judged.task, step, program_.tensors, compared, choice);
  }

  /// Whether the record names a way that is still one.
  bool use_record(const Judged& judged, RegionChoice& choice) const {
    if (!options_.record) return false;
    const auto known = options_.record->regions.find(judged.key);
    if (known == options_.record->regions.end()) return false;
    const Way way = find_way(judged.task, known->second.way, typical_, options_);
    // A CPU's library was asked when the record was made, or it was measured.
    const bool asks = way.reason.empty() && options_.target.kind == TargetKind::kCuda;
    const std::string reason = asks ? why_refused(judged.task, way, typical_, options_) : way.reason;
    if (!reason.empty()) {
      log(LogLevel::kReason, "{}: the recorded way '{}' is not taken: {}", choice.step, way.name, reason);
      return false;
    }
    const std::string step = choice.step;
    choice = known->second;
    choice.step = step;
    return true;
  }

  /// Puts whole steps back where they were measured to be faster than their parts together.
  void decide_cuts() {
    for (size_t c = cuts_.size(); c-- > 0;) {
      const CutStep& cut = cuts_[c];
      RegionChoice& whole = record_.regions.at(cut.key);
      const double parts = parts_milliseconds(cut);
      if (whole.way == kInParts) continue;
      if (!is_faster_whole(cut, whole, parts)) {
        record_.regions.at(cut.parts[0])
            .lost.push_back({"with what follows: " + whole.way, whole.milliseconds,
                             parts > 0 ? "slower than in two steps" : "not measured"});
        whole = {.step = whole.step, .way = std::string(kInParts), .milliseconds = parts, .lost = {}};
        continue;
      }
      // Another such step has said so already.
      const bool noted = !whole.lost.empty() && whole.lost.back().name == kInParts;
      if (!noted) whole.lost.push_back({std::string(kInParts), parts, parts > 0 ? "slower" : "not measured"});
      const auto at = program_.steps.begin() + static_cast<std::ptrdiff_t>(cut.first);
      program_.steps.erase(at + 1, at + static_cast<std::ptrdiff_t>(cut.parts.size()));
      *at = cut.whole;
    }
    if (!cuts_.empty()) forget_unused();
  }

  /// The time of all parts, or 0 where one was not measured.
  double parts_milliseconds(const CutStep& cut) const {
    double sum = 0;
    for (const std::string& key : cut.parts) {
      const double time = record_.regions.at(key).milliseconds;
      if (time <= 0) return 0;
      sum += time;
    }
    return sum;
  }

  bool is_faster_whole(const CutStep& cut, const RegionChoice& whole, double parts) const {
    if (whole.milliseconds > 0 && parts > 0) return whole.milliseconds < parts;
    return cut.gain <= 1;
  }

  /// Drops the choices for parts of steps that are done whole.
  void forget_unused() {
    std::set<std::string, std::less<>> used;
    for (const FusedStep& step : program_.steps) {
      if (!step.region.forms.empty()) used.insert(Judged(step, program_.tensors, typical_, options_).key);
    }
    std::erase_if(record_.regions,
                  [&](const auto& region) { return region.second.way != kInParts && !used.contains(region.first); });
  }

  FusedProgram& program_;
  const Bindings& typical_;
  const BuildOptions& options_;
  Record& record_;
  Tuner tuner_;
  std::vector<CutStep> cuts_;
};

}  // namespace

RegionTask task_of(const Region& region, const FusedStep& step, const std::vector<FusedTensor>& tensors) {
  RegionTask task{.region = &region, .constant = std::vector<bool>(region.tensors.size())};
  for (size_t i = 0; i < region.inputs.size(); ++i) {
    task.constant[region.inputs[i]] = tensors[step.inputs[i]].constant.has_value();
  }
  return task;
}

void choose_ways(FusedProgram& program, const Bindings& typical, const BuildOptions& options, Record& record) {
  WayChooser(program, typical, options, record).run();
}

}  // namespace graft
