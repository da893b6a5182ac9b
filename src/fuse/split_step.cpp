// SPDX-License-Identifier: Apache-2.0
#include "fuse/split_step.h"

#include <algorithm>

#include "base/log.h"
#include "fuse/attention.h"
#include "fuse/contraction.h"
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

/// Whether the form is a product of matrices, or a convolution.
bool is_product(const Form& form) {
  const auto* reduce = std::get_if<Reduce>(&form);
  const auto contraction = reduce ? find_contraction(*reduce) : std::nullopt;
  return contraction && !contraction->m.empty();
}

/// Whether the form's points are those of the product, in some order: what its strategies can walk.
bool runs_along(const Form& form, const Form& product) {
  const std::vector<Axis>&own = axes_of(form), &walked = axes_of(product);
  return own.size() == walked.size() && std::all_of(own.begin(), own.end(), [&](const Axis& axis) {
           return std::any_of(walked.begin(), walked.end(), [&](const Axis& other) {
             return other.variable->variable == axis.variable->variable;
           });
         });
}

/// Whether products stand beside reductions, or before maps over other points, and no strategy takes them together.
bool holds_products(const Region& region) {
  int reductions = 0;
  const Form* product = nullptr;
  bool elsewhere = false;
  for (const Form& form : region.forms) {
    if (!std::holds_alternative<Compute>(form) && !std::holds_alternative<Reduce>(form)) return false;
    reductions += std::holds_alternative<Reduce>(form);
    if (is_product(form)) product = &form;
    elsewhere = elsewhere || (product && !runs_along(form, *product));
  }
  if (!product || (reductions == 1 && !elsewhere)) return false;
  std::string reason;
  const bool attention = find_attention(region, reason).has_value();
  if (!attention) log(LogLevel::kReason, "{}: products and other reductions are no attention: {}", region.name, reason);
  return !attention;
}

/// The forms cut at each product, which has the maps of its points behind it with it, and at what lies between two.
std::vector<std::vector<Form>> groups_at_products(const Region& region) {
  std::vector<std::vector<Form>> groups(1);
  const Form* product = nullptr;  // of the last group
  for (const Form& form : region.forms) {
    const bool leaves = product && (std::holds_alternative<Reduce>(form) || !runs_along(form, *product));
    const bool begins = is_product(form) || leaves;
    if (begins && !groups.back().empty()) groups.emplace_back();
    if (begins) product = is_product(form) ? &form : nullptr;
    groups.back().push_back(form);
  }
  return groups;
}

/// One group for each form, but a fold to a scalar has with it what is computed from it alone.
std::vector<std::vector<Form>> groups_of_forms(const Region& region) {
  std::vector<std::vector<Form>> groups;
  for (const Form& form : region.forms) {
    const bool follows = std::holds_alternative<Compute>(form) && axes_of(form).empty() && !groups.empty() &&
                         std::holds_alternative<Reduce>(groups.back()[0]) && axes_of(groups.back()[0]).empty();
    if (!follows) groups.emplace_back();
    groups.back().push_back(form);
  }
  return groups;
}

}  // namespace

std::vector<FusedStep> split_groups(const FusedStep& step, const std::vector<std::vector<Form>>& groups,
                                    std::vector<FusedTensor>& tensors) {
  const Region& region = step.region;
  std::vector<int> last_reader(region.tensors.size(), -1);  // group
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const Form& form : groups[g]) {
      for (const int tensor : read_tensors(form)) last_reader[tensor] = static_cast<int>(g);
    }
  }
  for (const int tensor : region.outputs) last_reader[tensor] = static_cast<int>(groups.size());
  StepMaker maker(step, region, tensors);
  std::vector<FusedStep> steps;
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<int> results;
    for (const Form& form : groups[g]) {
      for (const int tensor : defined_tensors(form)) {
        const bool is_read = last_reader[tensor] > static_cast<int>(g);
        // A compaction writes all that it makes to memory, beside the count of it.
        if (is_read || std::holds_alternative<Compact>(form)) results.push_back(tensor);
      }
    }
    steps.push_back(maker.make(groups[g], results));
  }
  steps.front().sources = step.sources;
  steps.front().checks = step.checks;
  return steps;
}

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
  if (apart) return split_groups(normalised, groups_of_forms(normalised.region), tensors);
  if (holds_products(normalised.region)) {
    return split_groups(normalised, groups_at_products(normalised.region), tensors);
  }
  return {std::move(step)};
}

}  // namespace graft
