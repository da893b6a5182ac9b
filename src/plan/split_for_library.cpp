// SPDX-License-Identifier: Apache-2.0
#include "plan/split_for_library.h"

#include "fuse/rewrite_region.h"
#include "library/split_region.h"
#include "plan/ways.h"

namespace graft {
namespace {

FusedStep step_like(const FusedStep& whole, Region region, const std::vector<size_t>& inputs) {
  FusedStep step;
  step.name = whole.name;
  step.nodes = whole.nodes;
  step.operators = whole.operators;
  step.region = std::move(region);
  for (const size_t input : inputs) step.inputs.push_back(whole.inputs[input]);
  return step;
}

/// Whether a library does the whole region.
bool is_taken(const FusedStep& step, const Region& region, const std::vector<size_t>& inputs,
              const std::vector<FusedTensor>& tensors, const Bindings& typical, const BuildOptions& options) {
  RegionTask task{.region = &region, .constant = std::vector<bool>(region.tensors.size())};
  for (size_t i = 0; i < inputs.size(); ++i) {
    task.constant[region.inputs[i]] = tensors[step.inputs[inputs[i]]].constant.has_value();
  }
  return library_takes(task, typical, options);
}

}  // namespace

std::vector<FusedStep> split_for_library(FusedStep step, std::vector<FusedTensor>& tensors, const Bindings& typical,
                                         const BuildOptions& options) {
  std::vector<FusedStep> steps;
  Region region = step.region;
  if (!region.forms.empty()) normalise(region);
  const auto posts = is_worth_library(region, typical, options) ? count_posts(region) : std::nullopt;
  std::vector<size_t> all;
  for (size_t i = 0; i < step.inputs.size(); ++i) all.push_back(i);
  if (!posts || is_taken(step, region, all, tensors, typical, options)) return {std::move(step)};
  for (size_t kept = *posts; kept-- > 0;) {
    auto parts = split_region(region, kept);
    if (!parts) continue;
    normalise(parts->product);
    if (!is_taken(step, parts->product, parts->product_inputs, tensors, typical, options)) continue;
    FusedStep product = step_like(step, std::move(parts->product), parts->product_inputs);
    FusedStep rest = step_like(step, std::move(parts->rest), parts->rest_inputs);
    const TensorDecl& link = product.region.tensors[product.region.outputs[0]];
    product.outputs = {static_cast<int>(tensors.size())};
    tensors.push_back({link.name, link.type, link.shape, {}, -1});
    rest.inputs.push_back(product.outputs[0]);
    rest.outputs = step.outputs;
    product.sources = step.sources;
    product.checks = step.checks;
    return {std::move(product), std::move(rest)};
  }
  return {std::move(step)};
}

}  // namespace graft
