// SPDX-License-Identifier: Apache-2.0
#include "plan/divide_steps.h"

#include "fuse/split_step.h"
#include "plan/pack_channels.h"
#include "plan/split_gathered.h"
#include "plan/spread_reduction.h"
#include "plan/spread_scatter.h"

namespace graft {

void divide_steps(FusedProgram& program, const Bindings& typical, const BuildOptions& options,
                  const RewriteContext& context) {
  const auto each = [&](const auto& divide) {
    std::vector<FusedStep> steps;
    for (FusedStep& step : program.steps) {
      stop_if_cancelled(options, step.name);
      for (FusedStep& part : divide(std::move(step))) steps.push_back(std::move(part));
    }
    program.steps = std::move(steps);
  };
  std::vector<FusedTensor>& tensors = program.tensors;
  const bool is_gpu = options.target.kind == TargetKind::kCuda, generates = bool(options.compile_kernels);
  each([&](FusedStep step) { return split_step(std::move(step), tensors, context, is_gpu && generates); });
  if (is_gpu && generates) {
    each([&](FusedStep step) { return split_gathered(std::move(step), tensors, typical, context); });
  }
  if (generates) each([&](FusedStep step) { return pack_channels(std::move(step), tensors, options.target); });
  if (!is_gpu) return;
  each([&](FusedStep step) { return spread_reduction(std::move(step), tensors, typical, options.target); });
  each([&](FusedStep step) { return spread_scatter(std::move(step), tensors, typical); });
}

}  // namespace graft
