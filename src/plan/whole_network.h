// SPDX-License-Identifier: Apache-2.0
// The times of whole engines side by side: what is fastest alone need not be so among its neighbours, which share
// caches, power and the moments between kernels.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan/build_options.h"

namespace graft {

/// The median milliseconds of each engine, run in turns at usual sizes on the device of the options, which remember
/// them by `keys`. Throws Error where one cannot be measured (a step runs in the interpreter, sizes are computed by the
/// run).
std::vector<double> time_engines(const std::vector<std::shared_ptr<const Engine>>& engines,
                                 const std::vector<std::string>& keys, const BuildOptions& options);

}  // namespace graft
