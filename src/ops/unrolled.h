// SPDX-License-Identifier: Apache-2.0
// Recurrences whose state is a whole tensor: one set of forms for each step of a length known when compiling.
#pragma once

#include <vector>

#include "ops/compose.h"

namespace graft {

/// The number of steps as a plain number; a length that is open or very long is outside what definitions cover.
int64_t unrolled_steps(Definition& d, const Size& length);
/// Element `indices` of the tensor that number `step` names among `steps`, all of one shape; the branches not taken
/// are not loaded.
Expr element_at_step(const std::vector<Tensor>& steps, const Expr& step, const Indices& indices);

}  // namespace graft
