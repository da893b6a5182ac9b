// SPDX-License-Identifier: Apache-2.0
// What ran on a device and when, and the time that nothing did.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace graft {

/// A kernel, copy or fill on a device, by the device's own clock.
struct DeviceActivity {
  std::string name;
  double begin_us = 0, end_us = 0;
};

/// How well a device was used from the first begin to the last end.
struct ActivitySummary {
  double whole_us = 0;         ///< all of it
  double idle_us = 0;          ///< the part in which nothing ran
  double longest_idle_us = 0;  ///< without a break
  std::string after_longest;   ///< what came after that; empty when there was none
};

/// `activities`: in the order of their begin; they may overlap.
ActivitySummary summarize(std::span<const DeviceActivity> activities);

}  // namespace graft
