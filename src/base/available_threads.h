// SPDX-License-Identifier: Apache-2.0
// How many threads of this process can be at work at once.
#pragma once

#include <optional>
#include <string>

namespace graft {

/// The processors that this process may use, and no more than the processor time that its control groups give it
/// (a container's limit), rounded up. At least 1.
int available_threads();

/// The processors of this process's affinity mask.
int threads_by_affinity();
/// The processor time for each second that the control groups of this process allow (cpu.max of version 2,
/// cpu.cfs_quota_us of version 1), the least of all groups above it, rounded up; nothing where there is no limit.
/// `root`: the folder that the files of /proc and /sys are looked for in.
std::optional<int> threads_by_quota(const std::string& root = "");

}  // namespace graft
