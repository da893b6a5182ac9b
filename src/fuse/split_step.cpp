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

/// Whether products stand beside reductions in one region, and no strategy takes them together.
bool holds_products(const Region& region) {
  int reductions = 0;
  bool product = false;
  for (const Form& form : region.forms) {
    if (!std::holds_alternative<Compute>(form) && !std::holds_alternative<Reduce>(form)) return false;
    reductions += std::holds_alternative<Reduce>(form);
    product = product || is_product(form);
  }
  if (!product || reductions == 1) return false;
  std::string reason;
  const bool attention = find_attention(region, reason).has_value();
  if (!attention) log(LogLevel::kReason, "{}: products and other reductions are no attention: {}", region.name, reason);
  return !attention;
}

/// The forms cut at each product, which has the maps behind it with it, and at what lies between two products.
std::vector<std::vector<Form>> groups_at_products(const Region& region) {
  std::vector<std::vector<Form>> groups(1);
  bool has_product = false;
  for (const Form& form : region.forms) {
    const bool begins = is_product(form) || (has_product && std::holds_alternative<Reduce>(form));
    if (begins && !groups.back().empty()) groups.emplace_back();
    has_product = begins ? is_product(form) : has_product;
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
