// SPDX-License-Identifier: Apache-2.0
#include "plan/split_for_library.h"

#include "fuse/rewrite_region.h"
#include "library/split_region.h"
#include "plan/estimate_ways.h"
#include "plan/ways.h"

namespace graft {
namespace {

/// Regions of a CPU that take less, at the least, are not cut: another step costs about as much.
constexpr double kWorthCutting = 2e-6;

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
  if (step.region.forms.empty() || !options.libraries.source) return {std::move(step)};
  Region region = step.region;
  normalise(region, {.disabled = options.disabled});
  const bool on_gpu = options.target.kind == TargetKind::kCuda;
  const bool worth = on_gpu ? is_worth_library(region, typical, options)
                            : least_seconds(region, typical, options.target) >= kWorthCutting;
  const size_t cuts = worth ? count_cuts(region) : 0;
  std::vector<size_t> all;
  for (size_t i = 0; i < step.inputs.size(); ++i) all.push_back(i);
  if (cuts == 0 || is_taken(step, region, all, tensors, typical, options)) return {std::move(step)};
  for (size_t cut = cuts; cut-- > 0;) {
    auto parts = split_region(region, cut);
    if (!parts) continue;
    normalise(parts->product, {.disabled = options.disabled});
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
