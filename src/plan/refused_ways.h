// SPDX-License-Identifier: Apache-2.0
// What takes the place of a way that the code generator refused.
#pragma once

#include <map>
#include <set>
#include <string>

#include "engine/record.h"
#include "plan/build_options.h"
#include "plan/ways.h"

namespace graft {

/// The refused ways of the regions of one engine.
class RefusedWays {
 public:
  /// Notes that the chosen way `failed` of the region, and chooses the fastest other that was measured, else the next
  /// by the cost model: one more kernel schedule, or a library's way. `interpreter` where none is left.
  void replace(RegionChoice& choice, const Candidate& failed, const std::string& key, const RegionTask& task,
               const Bindings& typical, const BuildOptions& options);

 private:
  std::map<std::string, std::set<std::string>> refused_;  ///< names of ways by the key of the region
};

}  // namespace graft
