// SPDX-License-Identifier: Apache-2.0
#include "plan/losses.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "fuse/attention.h"
#include "fuse/contraction.h"
#include "fuse/rewrite_region.h"
#include "library/match.h"
#include "plan/estimate_ways.h"
#include "target/peak.h"
#include "strategy/strategy.h"

namespace graft {
namespace {

/// The interpreter does about as many simple operations in a second, whatever the target.
constexpr double kInterpreted = 1e7;

bool is_constant(const Engine& engine, int tensor) {
  while (engine.tensors[tensor].storage == Storage::kAlias) tensor = engine.tensors[tensor].index;
  return engine.tensors[tensor].storage == Storage::kConstant;
}

RegionTask task_of(const Region& region, const EngineStep& step, const Engine& engine) {
  RegionTask task{.region = &region, .constant = std::vector<bool>(region.tensors.size())};
  for (size_t i = 0; i < region.inputs.size() && i < step.tensors.size(); ++i) {
    task.constant[region.inputs[i]] = is_constant(engine, step.tensors[i]);
  }
  return task;
}

bool is_general(const EngineStep& step) {
  if (step.kind != StepKind::kKernel) return false;
  const tile::Schedule schedule = tile::parse_schedule(step.schedule);
  return schedule.strategy->is_general;
}

/// Why the products of a region that the general strategy has are no contractions.
void add_products(const Region& region, std::vector<std::string>& reasons) {
  for (const Form& form : region.forms) {
    const auto* reduce = std::get_if<Reduce>(&form);
    if (!reduce || !is_matrix_product(*reduce)) continue;
    const auto contraction = find_contraction(*reduce);
    if (contraction && !contraction->m.empty()) continue;
    reasons.push_back(fmt::format("contraction: the product '{}' has an operand that is more than a load, or an axis "
                                  "that belongs to neither operand",
                                  region.tensors[reduce->outputs[0]].name));
  }
}

/// What the ways that could be better were refused for: as the record says, and as recognition says now.
std::vector<std::string> refusals(const Region& region, const EngineStep& step, const RegionWork& least,
                                  const RegionWork& spelled, const Target& target) {
  std::vector<std::string> reasons;
  std::string all;
  for (const Candidate& candidate : step.candidates) {
    reasons.push_back(fmt::format("{}: {}", candidate.name, candidate.reason));
    all += candidate.name + " ";
  }
  constexpr double kRepeated = 1.5;
  if (least.elements > 0 && spelled.elements > kRepeated * least.elements) {
    reasons.push_back(fmt::format("values that are read several times are computed {:.1f} times over",
                                  spelled.elements / least.elements));
  }
  if (!is_general(step)) return reasons;
  const bool multiplies = std::any_of(region.forms.begin(), region.forms.end(), [](const Form& form) {
    const auto* reduce = std::get_if<Reduce>(&form);
    return reduce && is_matrix_product(*reduce);
  });
  if (!multiplies) return reasons;
  add_products(region, reasons);
  std::string why;
  if (!find_attention(region, why) && !why.empty()) reasons.push_back("attention: " + why);
  for (const LibraryInfo& library : all_libraries()) {
    if (library.target != target.kind || all.find(library.name) != all.npos) continue;
    const auto match = match_library(region, {.library = std::string(library.name)});
    if (const auto* reason = std::get_if<std::string>(&match)) {
      reasons.push_back(fmt::format("{}: {}", library.name, *reason));
    }
  }
  return reasons;
}

double arithmetic_of(const RegionWork& work) { return work.products + work.elements; }

/// Fills in how much of the network each region is.
void set_shares(std::vector<RegionLoss>& losses) {
  double arithmetic = 0, bytes = 0;
  for (const RegionLoss& loss : losses) {
    arithmetic += static_cast<double>(loss.steps.size()) * arithmetic_of(loss.least);
    bytes += static_cast<double>(loss.steps.size()) * loss.least.bytes;
  }
  for (RegionLoss& loss : losses) {
    const auto count = static_cast<double>(loss.steps.size());
    loss.share = std::max(arithmetic > 0 ? count * arithmetic_of(loss.least) / arithmetic : 0,
                          bytes > 0 ? count * loss.least.bytes / bytes : 0);
  }
}

}  // namespace

double RegionLoss::lost_seconds() const {
  return static_cast<double>(steps.size()) * std::max(0.0, seconds - least_seconds);
}

double RegionLoss::ratio() const { return seconds > 0 ? std::min(1.0, least_seconds / seconds) : 1; }

std::vector<RegionLoss> losses_of(const Engine& engine, const Bindings& sizes,
                                  const std::vector<double>& milliseconds, const std::optional<Peak>& given) {
  const Target target = parse_target(engine.target);
  const Peak peak = given.value_or(peak_of(target));
  std::vector<RegionLoss> losses;
  std::map<std::string, size_t> known;
  for (size_t s = 0; s < engine.steps.size(); ++s) {
    const EngineStep& step = engine.steps[s];
    if (step.region.empty()) continue;
    Region region = parse_region(step.region);
    normalise(region);
    const std::string key = region_key(task_of(region, step, engine), sizes) + step.schedule + step.library;
    const double measured = s < milliseconds.size() ? milliseconds[s] * 1e-3 : 0;
    if (const auto it = known.find(key); it != known.end()) {
      RegionLoss& loss = losses[it->second];
      const auto count = static_cast<double>(loss.steps.size());
      if (loss.measured) loss.seconds = (loss.seconds * count + measured) / (count + 1);
      loss.steps.push_back(s);
      continue;
    }
    RegionLoss loss{.steps = {s}, .least = least_work(region, sizes), .spelled = spelled_work(region, sizes)};
    loss.least_seconds = peak.start + least_seconds(region, loss.least, target, peak);
    loss.measured = measured > 0;
    if (loss.measured) {
      loss.seconds = measured;
    } else if (step.kind == StepKind::kInterpreter) {
      loss.seconds = arithmetic_of(loss.spelled) / kInterpreted;
    } else {
      loss.seconds = estimated_seconds(region, {.schedule = step.schedule, .library = step.library}, sizes, target);
    }
    loss.refused = refusals(region, step, loss.least, loss.spelled, target);
    known.emplace(key, losses.size());
    losses.push_back(std::move(loss));
  }
  for (RegionLoss& loss : losses) {
    // A region that was faster shows that the peaks are higher, or that its tensors lay in caches.
    if (loss.measured) loss.least_seconds = std::min(loss.least_seconds, loss.seconds);
  }
  set_shares(losses);
  std::stable_sort(losses.begin(), losses.end(),
                   [](const RegionLoss& a, const RegionLoss& b) { return a.lost_seconds() > b.lost_seconds(); });
  return losses;
}

}  // namespace graft
