// SPDX-License-Identifier: Apache-2.0
// Steps whose forms share no axis would run on one thread, form after form: each form becomes a step of its own, a fold
// to a scalar together with what is computed from it.
// Products of matrices beside other reductions, or before maps over other points, become steps of their own too: no
// strategy takes them together, and each is a product alone.
#pragma once

#include <vector>

#include "fuse/fused_program.h"
#include "fuse/rewrite_region.h"

namespace graft {

/// The step as it is; one step per form when the forms have no axis in common, but for maps that go on point by point
/// from other maps; or one for each product with the maps of its points behind it and for what lies between, when they
/// are no attention. Intermediate tensors of the region that then need memory of their own are appended to `tensors`.
/// `takes_gathered`: a product also has with it the maps that gather its columns (fuse/gathered_columns.h).
std::vector<FusedStep> split_step(FusedStep step, std::vector<FusedTensor>& tensors,
                                  const RewriteContext& context = {}, bool takes_gathered = false);
/// One step per form, whatever axes they have, but for such maps.
std::vector<FusedStep> split_forms(const FusedStep& step, std::vector<FusedTensor>& tensors,
                                   bool takes_gathered = false);
/// One step for each group; the groups are the forms of the step's region, in order.
std::vector<FusedStep> split_groups(const FusedStep& step, const std::vector<std::vector<Form>>& groups,
                                    std::vector<FusedTensor>& tensors);

}  // namespace graft
