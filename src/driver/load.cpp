// SPDX-License-Identifier: Apache-2.0
#include "driver/load.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "device/cuda/cuda_device.h"
#include "modules/library_source.h"

namespace graft {
namespace {

constexpr size_t kMostThreads = 4096;

}  // namespace

CompileOptions options_of(const Plan& plan) {
  CompileOptions options;
  options.tuning = Tuning::kOff;
  for (const auto& [key, value] : plan.options) {
    const bool matters = key == "mode" || key == "disable" || key == "threads" || key == "precision";
    if (matters) set_option(options, {key, value});
  }
  return options;
}

std::shared_ptr<const LoadedEngine> load(const Plan& plan, const std::string& device) {
  CompileOptions options = options_of(plan);
  options.device = device;
  if (options.threads == 0 && !plan.records.empty()) options.threads = parse_target(plan.records[0].target).threads;
  options.threads = std::clamp(options.threads, 0, static_cast<int>(kMostThreads));
  return load(build(plan, targets_of(options)[0], options), device);
}

std::shared_ptr<const LoadedEngine> load(Engine engine, const std::string& device) {
  const int gpu = gpu_of(device);
  if (!engine.kernels.empty()) {
    const Target target = parse_target(engine.target);
    const Target here = gpu >= 0 ? find_target(cuda_architecture(gpu)) : host_cpu(target.threads);
    const std::string reason = why_not_runnable(target, here);
    GRAFT_USER_CHECK(reason.empty(), kUnsupported,
                     "this machine cannot run it: " + reason + "; compile the model here, or with another --target",
                     engine.name.empty() ? "engine" : engine.name);
  }
  const auto on = gpu >= 0 ? open_cuda_device(gpu) : nullptr;
  return load_code(std::make_shared<const Engine>(std::move(engine)), library_source(), on);
}

}  // namespace graft
