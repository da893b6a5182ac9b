// SPDX-License-Identifier: Apache-2.0
#include "device/activity.h"

#include <algorithm>

namespace graft {

ActivitySummary summarize(std::span<const DeviceActivity> activities) {
  ActivitySummary summary;
  if (activities.empty()) return summary;
  double busy_until = activities[0].begin_us;
  for (const DeviceActivity& activity : activities) {
    const double idle = activity.begin_us - busy_until;
    if (idle > 0) summary.idle_us += idle;
    if (idle > summary.longest_idle_us) {
      summary.longest_idle_us = idle;
      summary.after_longest = activity.name;
    }
    busy_until = std::max(busy_until, activity.end_us);
  }
  summary.whole_us = busy_until - activities[0].begin_us;
  return summary;
}

}  // namespace graft
