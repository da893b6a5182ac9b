// SPDX-License-Identifier: Apache-2.0
// Where an engine is slower than its target could be: its regions against their rooflines.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "strategy/region_work.h"
#include "target/peak.h"

namespace graft {

/// A region of an engine, and the steps that do it alike.
struct RegionLoss {
  std::vector<size_t> steps;
  RegionWork least, spelled;  ///< of one step
  double least_seconds = 0;   ///< of one step, by the peaks
  double seconds = 0;         ///< of one step: measured, or as the cost model expects of the way that was chosen
  bool measured = false;
  double share = 0;           ///< of the network's arithmetic, or of its bytes where that is more, all steps together
  std::vector<std::string> refused;  ///< what better ways were refused for

  double lost_seconds() const;  ///< of all steps
  double ratio() const;         ///< of the roofline that is reached
};

/// The regions of an engine at these sizes, those first that lose the most time. `milliseconds`: measured by step, or
/// empty. `peak`: what the machine can do, where it was measured; else what its target's description tells.
std::vector<RegionLoss> losses_of(const Engine& engine, const Bindings& sizes,
                                  const std::vector<double>& milliseconds = {},
                                  const std::optional<Peak>& peak = std::nullopt);

}  // namespace graft
