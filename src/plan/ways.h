// SPDX-License-Identifier: Apache-2.0
// The ways in which a region can be done on a target: generated kernels by several schedules, and libraries.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "expr/region.h"
#include "plan/build_options.h"
#include "strategy/strategy.h"
#include "tile/program.h"

namespace graft {

/// One way to do a region: a program, a library, or the reason why it cannot be.
struct Way {
  std::string name;                      ///< `generated contract m=56 ...`, `onednn cut=rows ...`: what a record keeps
  std::string schedule;                  ///< the record behind the name
  tile::Layouts layouts;                 ///< by region tensor, of constants
  std::optional<tile::Program> program;  ///< of a library: for sizes that it refuses
  std::vector<int64_t> offsets = {};     ///< by input, of the part that the program reads (plan/read_parts.h); or empty
  std::string library;                   ///< `onednn`
  std::string reason;                    ///< why there is neither
};

/// A normalised region in the context that decides how it is done.
struct RegionTask {
  const Region* region = nullptr;
  std::vector<bool> constant;  ///< by region tensor: known when compiling, so that it may be packed
};

/// A name for everything that the choice of a way depends on, except the target: regions that differ only in names
/// or in which part of a tensor they read share it. `typical`: the values of symbols that the region is judged at.
std::string region_key(const RegionTask& task, const Bindings& typical);

/// Whether a contraction is so large that a library of the target is taken without being measured: on GPUs, until
/// generated kernels are shown to be faster there.
bool is_worth_library(const Region& region, const Bindings& typical, const BuildOptions& options);
/// Whether what follows a contraction is worth a step of its own, without being measured, so that a library does the
/// contraction: where arithmetic and not memory takes the time.
bool is_worth_splitting(const Region& region, const Bindings& typical);
/// Whether the cost model's favourite kernel splits operands of f32: libraries keep to multiply-adds, which are slower.
bool favours_split_products(const RegionTask& task, const Bindings& typical, const BuildOptions& options);
/// Whether some library of the target does the region at typical sizes.
bool library_takes(const RegionTask& task, const Bindings& typical, const BuildOptions& options);

/// Why a library does not do the region at typical sizes as a way of it says; empty for ways that are generated.
std::string why_refused(const RegionTask& task, const Way& way, const Bindings& typical, const BuildOptions& options);

/// Which ways may be taken, and how many.
struct WayLimits {
  size_t generated = 1;  ///< ways with a program at most
  size_t library = 0;    ///< ways of each library at most; of one whose ways compile nothing, four times as many
  const BuildOptions& options;
  bool measured = false;  ///< otherwise a CPU's library is asked only where the cost model expects it to be the fastest
};

/// Ways by the cost model's preference: on a CPU by the time that it expects, on a GPU generated ones first, but a
/// library's for large contractions that no unit splits. The first that can be taken is taken where nothing is
/// measured. Those that cannot be taken say why.
std::vector<Way> ways_of(const RegionTask& task, const Bindings& typical, const WayLimits& limits);
/// The way of that name, or a way that cannot be taken and the reason: names come from files.
Way find_way(const RegionTask& task, std::string_view name, const Bindings& typical, const BuildOptions& options);

}  // namespace graft
