// SPDX-License-Identifier: Apache-2.0
// The ways in which a region can be done on a target: generated kernels by several schedules, and libraries.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "expr/region.h"
#include "plan/choose_schedule.h"
#include "target/target.h"
#include "tile/program.h"

namespace graft {

/// One way to do a region: a program, or the reason why it cannot be.
struct Way {
  std::string name;  ///< `generated contract m=56 ...`: what a record keeps
  Choice choice;
  std::optional<tile::Program> program;
  std::string reason;
};

/// A normalised region in the context that decides how it is done.
struct RegionTask {
  const Region* region = nullptr;
  std::vector<bool> constant;  ///< by region tensor: known when compiling, so that it may be packed
};

/// A name for everything that the choice of a way depends on, except the target: regions that differ only in names
/// share it. `typical`: the values of symbols that the region is judged at.
std::string region_key(const RegionTask& task, const Bindings& typical);

/// Ways by the cost model's preference, until `most` of them have a program; those that have none say why.
std::vector<Way> ways_of(const RegionTask& task, const Bindings& typical, const Target& target, size_t most);
/// The way of that name, or a way without a program and the reason: names come from files.
Way find_way(const RegionTask& task, std::string_view name, const Target& target);

}  // namespace graft
