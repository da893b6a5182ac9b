// SPDX-License-Identifier: Apache-2.0
// Products whose columns are gathered (fuse/gathered_columns.h), on a GPU.
#pragma once

#include <vector>

#include "fuse/fused_program.h"
#include "fuse/rewrite_region.h"

namespace graft {

/// The step as it is, or, where it gathers the columns of a product, the product and the maps apart: but for products
/// of 16-bit operands with few rows, they are faster by a library or in tiles of their own. `typical`: the sizes that
/// rows are counted at.
std::vector<FusedStep> split_gathered(FusedStep step, std::vector<FusedTensor>& tensors, const Bindings& typical,
                                      const RewriteContext& context = {});

}  // namespace graft
