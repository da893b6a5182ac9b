// SPDX-License-Identifier: Apache-2.0
// The kernels that a graph becomes, as golden files show them.
#pragma once

#include <string>

#include "support/golden_file.h"

namespace graft {

/// For each step of the case's graph and each of a few machines: the schedules that the step may have, the cost model's
/// favourite first, and the program that lowering makes of the favourite.
std::string lowered(const golden::File& file, const golden::Case& c);

}  // namespace graft
