// SPDX-License-Identifier: Apache-2.0
#include "fuse/split_step.h"

#include <algorithm>

#include "fuse/step_maker.h"

namespace graft {
namespace {

/// A tensor folded to a scalar, and what is computed from that: there is no axis that could be shared.
bool is_one_scalar(const Region& region) {
  const bool scalars = std::all_of(region.forms.begin(), region.forms.end(), [](const Form& form) {
    return axes_of(form).empty() && (std::holds_alternative<Compute>(form) || std::holds_alternative<Reduce>(form));
  });
  return scalars && std::count_if(region.forms.begin(), region.forms.end(),
                                  [](const Form& form) { return std::holds_alternative<Reduce>(form); }) <= 1;
}

}  // namespace

std::vector<FusedStep> split_forms(const FusedStep& step, std::vector<FusedTensor>& tensors) {
  StepMaker maker(step, step.region, tensors);
  std::vector<FusedStep> steps;
  for (const Form& form : step.region.forms) steps.push_back(maker.make({form}, defined_tensors(form)));
  steps.front().sources = step.sources;
  steps.front().checks = step.checks;
  return steps;
}

std::vector<FusedStep> split_step(FusedStep step, std::vector<FusedTensor>& tensors, const RewriteContext& context) {
  if (step.region.forms.empty()) return {std::move(step)};
  FusedStep normalised = step;
  normalise(normalised.region, context);
  const bool apart =
      normalised.region.forms.size() > 1 && !is_one_scalar(normalised.region) && common_axes(normalised.region).empty();
  if (!apart) return {std::move(step)};
  return split_forms(normalised, tensors);
}

}  // namespace graft
