// SPDX-License-Identifier: Apache-2.0
// Steps whose product a library does, but not with everything that follows it.
#pragma once

#include <vector>

#include "fuse/fused_program.h"
#include "plan/build_options.h"

namespace graft {

/// The step as it is, or two: the product with as many operations behind it as a library takes at `typical` sizes, and
/// a map that does the rest. On a GPU only for contractions that are worth a library without being measured. The tensor
/// between them is appended to `tensors`.
std::vector<FusedStep> split_for_library(FusedStep step, std::vector<FusedTensor>& tensors, const Bindings& typical,
                                         const BuildOptions& options);

}  // namespace graft
