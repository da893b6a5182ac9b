// SPDX-License-Identifier: Apache-2.0
#include "plan/ways.h"

#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"

namespace graft {
namespace {

constexpr std::string_view kGenerated = "generated ";

Way generated(const RegionTask& task, Choice choice, const Target& target) {
  Way way{.name = std::string(kGenerated) + tile::print(choice.schedule),
          .choice = std::move(choice),
          .program = std::nullopt,
          .reason = ""};
  tile::Lowered lowered = tile::lower(*task.region, way.choice.layouts, way.choice.schedule, target);
  if (auto* reason = std::get_if<std::string>(&lowered)) {
    way.reason = *reason;
  } else {
    way.program = std::get<tile::Program>(std::move(lowered));
  }
  return way;
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
  Hasher hasher;
  hasher.add(print(region));
  for (const bool constant : task.constant) hasher.add(static_cast<int64_t>(constant));
  for (const std::string& symbol : symbols) {
    const auto value = typical.find(symbol);
    hasher.add(symbol).add(value == typical.end() ? int64_t{0} : value->second);
  }
  return hasher.finish().to_string();
}

std::vector<Way> ways_of(const RegionTask& task, const Bindings& typical, const Target& target,
                         size_t most) {
  std::vector<Way> ways;
  std::set<std::string> programs;
  for (Choice& choice : schedule_candidates(*task.region, task.constant, typical, target)) {
    if (programs.size() == most) break;
    Way way = generated(task, std::move(choice), target);
    // Schedules that differ only in what this region does not use are one way.
    if (way.program && !programs.insert(tile::print(*way.program)).second) continue;
    ways.push_back(std::move(way));
  }
  return ways;
}

Way find_way(const RegionTask& task, std::string_view name, const Target& target) {
  Way missing{.name = std::string(name), .choice = {}, .program = std::nullopt, .reason = "there is no such way"};
  if (!name.starts_with(kGenerated)) return missing;
  try {
    const tile::Schedule schedule = tile::parse_schedule(name.substr(kGenerated.size()));
    return generated(task, choice_of(*task.region, task.constant, schedule), target);
  } catch (const Error& error) {
    missing.reason = error.message();
    return missing;
  }
}

}  // namespace graft
