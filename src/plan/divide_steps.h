// SPDX-License-Identifier: Apache-2.0
// The steps of a fused network become those of an engine: what one region computes, a machine may do better in several
// kernels. Which ways a region has, plan/choose_ways judges after that.
#pragma once

#include "fuse/fused_program.h"
#include "fuse/rewrite_region.h"
#include "plan/build_options.h"

namespace graft {

/// Replaces each step by those that the target of `options` does better; `typical` has a size for each symbol.
/// Throws cancelled between steps when the caller wants no more.
void divide_steps(FusedProgram& program, const Bindings& typical, const BuildOptions& options,
                  const RewriteContext& context = {});

}  // namespace graft
