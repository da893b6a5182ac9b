// SPDX-License-Identifier: Apache-2.0
// Element types and ranks that only a run of a graph tells.
#pragma once

#include <memory>

#include <torch/csrc/jit/api/module.h>

#include "sizes.h"

namespace graft::torchscript {

/// Runs a lowered graph once on sample inputs (inputs.h) and adds the element type and rank of each tensor that `known`
/// lacks: what comes from operators that look at data, from objects and from control flow. Its sizes stay open. Gives
/// whether there were any. A tensor of another type or rank in a later run does not fit the engine that takes it, which
/// then leaves its part to torch.
///
/// Nothing is printed, and the module stays as it is; a graph that writes to constants is not run. Throws what the
/// graph throws. `spec` is resolved.
bool observe_types(const torch::jit::Module& module, const std::shared_ptr<torch::jit::Graph>& graph, const Spec& spec,
                   KnownSizes& known);

}  // namespace graft::torchscript
