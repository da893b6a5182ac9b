// SPDX-License-Identifier: Apache-2.0
// What runs on NVIDIA GPUs, as CUPTI tells it: their profiling library, part of the toolkit and a package of pip's.
#pragma once

#include <functional>
#include <vector>

#include "device/activity.h"

namespace graft {

/// What this process ran on its GPUs while `work`, which waits for them, was at it, in the order of the begin. One
/// caller at a time; another waits. Throws Error{device} where CUPTI is missing or in use by another profiler.
std::vector<DeviceActivity> trace_cuda(const std::function<void()>& work);

}  // namespace graft
