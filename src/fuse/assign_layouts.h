// SPDX-License-Identifier: Apache-2.0
// Layouts over the whole program: which intermediate tensors have their channels last in memory.
#pragma once

#include "fuse/fused_program.h"

namespace graft {

/// [n, c, spatial...] -> [n, spatial..., c] for the results of convolutions and what is computed from them, so that the
/// lanes of a convolution are output channels and its weights can be packed. The program's inputs and outputs and
/// tensors that share memory stay as they are; no step is added. `any_order`, by output: those of which nobody cares
/// how their axes lie may change, too.
void assign_layouts(FusedProgram& program, const std::vector<bool>& any_order = {});

/// Convolutions that still store their channels before the positions, as results and views of other shapes want them,
/// store them last, and a step of its own turns that: the vectors of a CPU run along channels. For after
/// assign_layouts.
void turn_results(FusedProgram& program);

}  // namespace graft
