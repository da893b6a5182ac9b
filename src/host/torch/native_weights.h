// SPDX-License-Identifier: Apache-2.0
// Weights of what runs in torch where an engine refuses its inputs: they exist once, in the engine.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include "engine.h"

namespace graft::torchscript {

/// Weights of the operators in the block that the engine has become calls of graft::engine_weight, which makes them
/// when the block runs; batch normalisation behind a convolution goes into its weights, as in the engine. What the
/// engine has otherwise stays a constant of the graph. `value`: the engine, as the block reads it.
void take_weights(torch::jit::Block& block, Engine& engine, torch::jit::Value* value);

}  // namespace graft::torchscript
