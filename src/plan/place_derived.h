// SPDX-License-Identifier: Apache-2.0
// Derived sizes of an engine: what they usually are, and when a run knows them.
#pragma once

#include <vector>

#include "engine/engine.h"
#include "fuse/fused_program.h"

namespace graft {

/// Adds what the derived sizes are at the typical sizes of the symbols that they depend on.
void add_typical(const std::vector<DerivedSize>& derived, Bindings& typical);
/// Each derived size with the step before which all that it depends on is known; without those of which something
/// never is, which nothing that runs names. Throws invalid_model when a symbol of another origin has the same name.
std::vector<EngineSize> place_derived(const FusedProgram& program, const std::vector<EngineStep>& steps);

}  // namespace graft
