// SPDX-License-Identifier: Apache-2.0
// Nothing in a plan is believed that could make code touch foreign memory.
#pragma once

#include "engine/engine.h"

namespace graft {

/// Checks that each kernel of a plan is a well-formed tile program that fits the steps that launch it: its buffers have
/// the types of the tensors and lie inside their memory, it writes outputs only, and its launch and scratch sizes are
/// what the program itself gives. What depends on the sizes of a run becomes a bound of the step. Throws invalid_model
/// naming the kernel or step.
void check_kernels(Engine& engine);

}  // namespace graft
