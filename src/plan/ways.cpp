// SPDX-License-Identifier: Apache-2.0
#include "plan/ways.h"

#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "fuse/contraction.h"
#include "library/match.h"
#include "strategy/choose_schedule.h"
#include "strategy/contract.h"
#include "strategy/nest.h"
#include "plan/estimate_ways.h"
#include "plan/read_parts.h"
#include "plan/roofline.h"

namespace graft {
namespace {

constexpr std::string_view kGenerated = "generated ";
/// From this many operations on a library is taken on a GPU without being measured.
constexpr int64_t kWorthLibrary = 10'000'000;
/// Operations for each byte from which on another pass over the result costs less than a slower contraction.
constexpr int64_t kWorthSplitting = 64;

/// What is there before earlier kernels have ended, blocks of a GPU may read early.
void mark_constants(const RegionTask& task, tile::Program& program) {
  for (size_t i = 0; i < task.region->inputs.size(); ++i) {
    program.buffers[i].constant |= task.constant[task.region->inputs[i]];
  }
}

Way generated(const RegionTask& task, const Choice& choice, const Target& target) {
  Way way{.name = {}, .schedule = tile::print(choice.schedule), .layouts = choice.layouts};
  way.name = std::string(kGenerated) + way.schedule;
  ReadParts parts = read_parts(*task.region, choice.layouts);
  tile::Lowered lowered = tile::lower(parts.region, choice.layouts, choice.schedule, target);
  way.offsets = std::move(parts.offsets);
  if (auto* reason = std::get_if<std::string>(&lowered)) {
    way.reason = *reason;
  } else {
    way.program = std::get<tile::Program>(std::move(lowered));
    if (target.kind == TargetKind::kCuda) mark_constants(task, *way.program);
  }
  return way;
}

/// Whether the options allow what the schedule multiplies with.
bool may_use(const tile::Schedule& schedule, const BuildOptions& options) {
  return options.splits_operands || !schedule.unit || !schedule.unit->splits();
}

/// Why the library may not be used at all.
std::string why_no_library(const LibraryInfo& library, const BuildOptions& options) {
  if (options.target.kind != library.target) {
    return library.target == TargetKind::kCpu ? "it runs on CPUs" : "it runs on NVIDIA GPUs";
  }
  if (std::find(options.disabled.begin(), options.disabled.end(), library.name) != options.disabled.end()) {
    return "it was disabled";
  }
  if (!options.libraries.why_not) return "this build has no libraries";
  return options.libraries.why_not(std::string(library.name));
}

/// Why the library does not do the region at typical sizes in this way, or an empty text.
std::string why_refused(const Region& region, const LibrarySchedule& schedule, const Bindings& typical,
                        const BuildOptions& options) {
  if (!options.libraries.refuses) return "";
  const auto match = match_library(region, schedule);
  if (const auto* reason = std::get_if<std::string>(&match)) return *reason;
  try {
    return options.libraries.refuses(schedule, evaluate(std::get<LibraryMatch>(match).call, typical));
  } catch (const Error& error) {
    return error.message();
  }
}

/// Layouts but for the order inside of panels, which kernels read in any way.
tile::Layouts in_any_order(tile::Layouts layouts) {
  for (auto& layout : layouts) {
    if (layout) std::sort(layout->rest.begin(), layout->rest.end());
  }
  return layouts;
}

/// The register-tiled micro-kernel that reads constants as a CPU's library does, where it can.
std::optional<tile::Program> contract_beside(const RegionTask& task, const tile::Layouts& layouts,
                                             const Target& target) {
  tile::ContractSchedule schedule{.m = target.vector_registers >= 32 ? 56 : 48};
  bool packs = false;
  for (const auto& layout : layouts) {
    if (!layout) continue;
    packs = true;
    schedule.panel = layout->lanes;
    schedule.n = (schedule.n + layout->lanes - 1) / layout->lanes * layout->lanes;
  }
  const std::vector<bool> constant = packs ? task.constant : std::vector<bool>(task.constant.size());
  if (in_any_order(choice_of(*task.region, constant, schedule).layouts) != in_any_order(layouts)) return std::nullopt;
  tile::Lowered lowered = tile::lower(*task.region, layouts, schedule, target);
  auto* program = std::get_if<tile::Program>(&lowered);
  return program ? std::optional(std::move(*program)) : std::nullopt;
}

/// A kernel that reads constants as the library does, for sizes that the library refuses; not the fastest one.
std::optional<tile::Program> kernel_beside(const RegionTask& task, const tile::Layouts& layouts,
                                           const Bindings& typical, const Target& target) {
  if (target.kind == TargetKind::kCpu) {
    if (auto program = contract_beside(task, layouts, target)) return program;
  } else {
    for (const Choice& choice : schedule_candidates(*task.region, task.constant, typical, target)) {
      tile::Lowered lowered = tile::lower(*task.region, layouts, choice.schedule, target);
      if (auto* program = std::get_if<tile::Program>(&lowered)) return std::move(*program);
    }
  }
  tile::Lowered lowered = tile::lower(*task.region, layouts, tile::NestSchedule{}, target);
  auto* program = std::get_if<tile::Program>(&lowered);
  return program ? std::optional(std::move(*program)) : std::nullopt;
}

bool has_symbols(const Region& region) {
  std::set<std::string, std::less<>> symbols;
  for (const TensorDecl& decl : region.tensors) {
    for (const Size& size : decl.shape) size.collect_symbols(symbols);
  }
  return !symbols.empty();
}

/// The kernel that runs the dynamic sizes that a library refuses in this way. Without one the way is none for the range
/// that is compiled: then the reason, else an empty text.
std::string add_kernel_beside(Way& way, const RegionTask& task, const Bindings& typical, const Target& target) {
  if (!has_symbols(*task.region)) return "";
  way.program = kernel_beside(task, way.layouts, typical, target);
  return way.program ? "" : "the library may refuse some of the dynamic sizes, and no kernel could run those";
}

void add_library_ways(std::vector<Way>& ways, const LibraryInfo& library, const RegionTask& task,
                      const Bindings& typical, const WayLimits& limits) {
  const std::string name(library.name);
  std::string reason = why_no_library(library, limits.options);
  std::vector<LibraryCandidate> candidates;
  if (reason.empty()) {
    candidates = library_candidates(library, *task.region, task.constant, typical, limits.options.target, reason);
  }
  size_t taken = 0;
  const size_t most = limits.library * (library.ready && limits.library > 1 ? 4 : 1);
  // What a CPU's library refuses fails where it is measured; a later way of it may do.
  const bool is_gpu = library.target == TargetKind::kCuda;
  for (const LibraryCandidate& candidate : candidates) {
    if (taken == most) break;
    reason.clear();
    if (is_gpu || !limits.measured) reason = why_refused(*task.region, candidate.schedule, typical, limits.options);
    if (!reason.empty() && is_gpu) break;  // what cannot be done in one of its ways cannot be done in a later one
    if (!reason.empty()) continue;
    const std::string schedule = print(candidate.schedule);
    Way way{.name = schedule, .schedule = schedule, .layouts = candidate.layouts, .library = name};
    reason = add_kernel_beside(way, task, typical, limits.options.target);
    if (!reason.empty()) continue;
    ways.push_back(std::move(way));
    ++taken;
  }
  if (taken == 0) ways.push_back({.name = name, .reason = reason});
}

double seconds_of(const RegionTask& task, const Way& way, const Bindings& typical, const BuildOptions& options) {
  if (!way.reason.empty()) return std::numeric_limits<double>::infinity();
  return estimated_seconds(*task.region, way, typical, options.target);
}

/// Whether the cost model expects a library of a CPU to be faster than all of these ways.
bool library_leads(const LibraryInfo& library, const std::vector<Way>& ways, const RegionTask& task,
                   const Bindings& typical, const BuildOptions& options) {
  const std::string name(library.name);
  if (std::holds_alternative<std::string>(match_library(*task.region, {.library = name}))) return false;
  const Way way{.name = name, .library = name};
  const double seconds = seconds_of(task, way, typical, options);
  return std::all_of(ways.begin(), ways.end(),
                     [&](const Way& other) { return seconds < seconds_of(task, other, typical, options); });
}

/// The fastest first, as the cost model expects on a CPU. Where that is a library's way, it is one that the library
/// does: it may be taken without being measured.
void rank(std::vector<Way>& ways, const RegionTask& task, const Bindings& typical, const BuildOptions& options) {
  std::vector<std::pair<double, Way>> rated;
  for (Way& way : ways) {
    const double seconds = seconds_of(task, way, typical, options);
    rated.emplace_back(seconds, std::move(way));
  }
  std::stable_sort(rated.begin(), rated.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [seconds, way] : rated) {
    if (way.library.empty() || !way.reason.empty()) break;
    way.reason = why_refused(task, way, typical, options);
    if (way.reason.empty()) break;
  }
  ways.clear();
  for (auto& [seconds, way] : rated) ways.push_back(std::move(way));
}

/// Products that are no matrix's: each result folds a few elements of its own channel, as a convolution with as many
/// groups as channels does. Memory bounds them; libraries made for matrix units take 20 to 50 times as long.
bool folds_single_channels(const Region& region, const Bindings& typical) {
  constexpr int64_t kFew = 64;
  for (const Form& form : region.forms) {
    const auto* reduce = std::get_if<Reduce>(&form);
    const auto contraction = reduce ? find_contraction(*reduce) : std::nullopt;
    if (!contraction || contraction->batch.empty() || (!contraction->m.empty() && !contraction->n.empty())) continue;
    int64_t folded = 1;
    for (const Axis& axis : contraction->k) folded *= std::max<int64_t>(1, axis.extent.evaluate(typical));
    if (folded <= kFew) return true;
  }
  return false;
}

Way library_way(const RegionTask& task, std::string_view name, const Bindings& typical, const BuildOptions& options) {
  const LibrarySchedule schedule = parse_library_schedule(name);
  Way way{.name = std::string(name), .schedule = print(schedule)};
  way.reason = why_no_library(*find_library(schedule.library), options);
  auto match = match_library(*task.region, schedule);
  if (const auto* reason = std::get_if<std::string>(&match)) way.reason = *reason;
  if (!way.reason.empty()) return way;
  way.library = schedule.library;
  way.layouts = std::move(std::get<LibraryMatch>(match).layouts);
  // Only what is known now can be packed now.
  for (size_t t = 0; t < way.layouts.size(); ++t) {
    if (way.layouts[t] && !task.constant[t]) return {.name = way.name, .reason = "its weights are not constant"};
  }
  const std::string reason = add_kernel_beside(way, task, typical, options.target);
  return reason.empty() ? way : Way{.name = way.name, .reason = reason};
}

/// Whether the first of a GPU's candidates splits operands of f32.
bool begins_with_split(const std::vector<Choice>& candidates, const Target& target) {
  if (target.kind != TargetKind::kCuda || candidates.empty()) return false;
  const ContractUnit* unit = candidates[0].schedule.unit;
  return unit && unit->splits();
}

}  // namespace

std::string region_key(const RegionTask& task, const Bindings& typical) {
  Region region = *task.region;
  region.name = "region";
  std::set<std::string, std::less<>> symbols;
  for (size_t t = 0; t < region.tensors.size(); ++t) {
    region.tensors[t].name = fmt::format("t{}", t);
    for (const Size& size : region.tensors[t].shape) size.collect_symbols(symbols);
  }
  // Which part of a tensor it reads, the step of a recurrence for one, makes no difference to how fast it is.
  for (Form& form : region.forms) {
    form = map_exprs(form, [](const Expr& e) {
      return transform(e, [](const Expr& node) {
        if (node->kind != ExprKind::kLoad) return Expr();
        std::vector<Expr> indices = node->args;
        for (Expr& index : indices) {
          if (index->kind == ExprKind::kConstant) index = make_index(0);
        }
        return make_load(node->tensor, node->type, std::move(indices));
      });
    });
  }
  Hasher hasher;
  hasher.add(print(region));
  for (const bool constant : task.constant) hasher.add(static_cast<int64_t>(constant));
  for (const std::string& symbol : symbols) {
    const auto value = typical.find(symbol);
    hasher.add(symbol).add(value == typical.end() ? int64_t{0} : value->second);
  }
  return hasher.finish().to_string();
}

std::string why_refused(const RegionTask& task, const Way& way, const Bindings& typical, const BuildOptions& options) {
  if (way.library.empty()) return "";
  return why_refused(*task.region, parse_library_schedule(way.schedule), typical, options);
}

bool is_worth_library(const Region& region, const Bindings& typical, const BuildOptions& options) {
  return options.target.kind == TargetKind::kCuda && options.libraries.source &&
         operations_of(region).evaluate(typical) >= kWorthLibrary && !folds_single_channels(region, typical);
}

bool is_worth_splitting(const Region& region, const Bindings& typical) {
  return operations_of(region).evaluate(typical) >= kWorthSplitting * bytes_of(region).evaluate(typical);
}

bool favours_split_products(const RegionTask& task, const Bindings& typical, const BuildOptions& options) {
  const Target& target = options.target;
  return target.kind == TargetKind::kCuda &&
         begins_with_split(schedule_candidates(*task.region, task.constant, typical, target), target);
}

bool library_takes(const RegionTask& task, const Bindings& typical, const BuildOptions& options) {
  for (const LibraryInfo& library : all_libraries()) {
    if (library.target != options.target.kind) continue;
    std::vector<Way> ways;
    add_library_ways(ways, library, task, typical, {.library = 1, .options = options});
    if (!ways.empty() && ways[0].reason.empty()) return true;
  }
  return false;
}

std::vector<Way> ways_of(const RegionTask& task, const Bindings& typical, const WayLimits& limits) {
  std::vector<Way> ways;
  std::set<std::string> programs;
  const Target& target = limits.options.target;
  const std::vector<Choice> candidates = schedule_candidates(*task.region, task.constant, typical, target);
  for (const Choice& choice : candidates) {
    if (programs.size() == limits.generated) break;
    if (!may_use(choice.schedule, limits.options)) continue;
    Way way = generated(task, choice, target);
    // Schedules that differ only in what this region does not use are one way.
    if (way.program && !programs.insert(tile::print(*way.program)).second) continue;
    ways.push_back(std::move(way));
  }
  if (limits.library == 0) return ways;
  for (const LibraryInfo& library : all_libraries()) {
    if (library.target != target.kind) continue;
    const bool wanted = limits.measured || target.kind == TargetKind::kCuda ||
                        library_leads(library, ways, task, typical, limits.options);
    // What the library cannot do, only those who measure want to know.
    std::vector<Way> added;
    if (wanted) add_library_ways(added, library, task, typical, limits);
    for (Way& way : added) ways.push_back(std::move(way));
  }
  if (target.kind == TargetKind::kCpu) rank(ways, task, typical, limits.options);
  if (is_worth_library(*task.region, typical, limits.options) && !begins_with_split(candidates, target)) {
    std::stable_partition(ways.begin(), ways.end(), [](const Way& way) { return !way.library.empty(); });
  }
  return ways;
}

Way find_way(const RegionTask& task, std::string_view name, const Bindings& typical, const BuildOptions& options) {
  try {
    if (find_library(name.substr(0, name.find(' ')))) return library_way(task, name, typical, options);
    if (name.starts_with(kGenerated)) {
      const tile::Schedule schedule = tile::parse_schedule(name.substr(kGenerated.size()));
      if (!may_use(schedule, options)) return {.name = std::string(name), .reason = "products are to be multiply-adds"};
      return generated(task, choice_of(*task.region, task.constant, schedule), options.target);
    }
    return {.name = std::string(name), .reason = "there is no such way"};
  } catch (const Error& error) {
    return {.name = std::string(name), .reason = error.message()};
  }
}

}  // namespace graft
