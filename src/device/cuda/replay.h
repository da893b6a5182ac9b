// SPDX-License-Identifier: Apache-2.0
// Timing of captured work.
#pragma once

#include <functional>

#include "device/cuda/driver.h"

namespace graft::cuda {

/// Milliseconds of the GPU for what `work` puts into `stream`, the mean of `repetitions` replays of a captured graph.
/// The stream's context is current on this thread. Throws Error{device}, and what `work` throws.
double time_replays(Handle stream, const std::function<void()>& work, int repetitions);

}  // namespace graft::cuda
