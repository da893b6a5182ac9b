// SPDX-License-Identifier: Apache-2.0
// What a nest of loops takes on a CPU: by the way that the code generator goes through each form.
#pragma once

#include "expr/region.h"
#include "target/target.h"

namespace graft {

/// Seconds of all threads together that the arithmetic of a nest takes on one thread of the target; memory is apart.
double nest_thread_seconds(const Region& region, const Bindings& typical, const Target& target);

}  // namespace graft
