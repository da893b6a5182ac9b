// SPDX-License-Identifier: Apache-2.0
#include "driver/load.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/available_threads.h"
#include "base/error.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/describe_gpus.h"
#include "modules/host_source.h"
#include "modules/library_source.h"
#include "runtime/counters.h"

namespace graft {
namespace {

/// The threads of a plan on a machine of this kind: chosen when it was compiled, or those of the machine it was made
/// on; 0 where it was made for other kinds.
int recorded_threads(const Plan& plan, const CompileOptions& options) {
  if (options.threads > 0) return options.threads;
  const Record* record = record_for(plan.records, targets_of(options)[0]);
  return record ? parse_target(record->target).threads : 0;
}

/// What was recorded elsewhere need not be here: a container may have less.
int usable_threads(int chosen, int recorded) {
  if (chosen > 0) return chosen;
  return recorded > 0 ? std::min(recorded, available_threads()) : available_threads();
}

bool has_kernels(const Engine& engine) {
  return !engine.kernels.empty() || std::any_of(engine.steps.begin(), engine.steps.end(), [](const EngineStep& step) {
    return std::any_of(step.bodies.begin(), step.bodies.end(), [](const auto& body) { return has_kernels(*body); });
  });
}

}  // namespace

CompileOptions options_of(const Plan& plan) {
  CompileOptions options;
  options.tuning = Tuning::kOff;
  for (const auto& [key, value] : plan.options) {
    const bool matters = key == "mode" || key == "disable" || key == "threads" || key == "precision" ||
                         key == "fp32-units";
    if (!matters) continue;
    if (key == "disable") {  // another version may have had passes that this one does not
      for (const std::string_view name : split(value, ',')) options.disabled.emplace_back(name);
    } else {
      set_option(options, {key, value});
    }
  }
  return options;
}

std::string device_of(const Plan& plan) {
  for (const Record& record : plan.records) {
    const Target target = parse_target(record.target);
    if (target.kind == TargetKind::kCpu) {
      if (why_not_runnable(target, host_cpu(target.threads)).empty()) return "cpu";
      continue;
    }
    const int gpu = find_gpu(target.architecture);
    if (gpu >= 0) return gpu == 0 ? "cuda" : fmt::format("cuda:{}", gpu);
  }
  const bool for_gpus = std::any_of(plan.records.begin(), plan.records.end(), [](const Record& record) {
    return parse_target(record.target).kind == TargetKind::kCuda;
  });
  return for_gpus && why_no_cuda_device().empty() ? "cuda" : "cpu";
}

std::shared_ptr<const LoadedEngine> load(const Plan& plan, const std::string& chosen, int threads) {
  const std::string device = chosen == "auto" ? device_of(plan) : chosen;
  CompileOptions options = options_of(plan);
  options.device = device;
  options.threads = usable_threads(threads, recorded_threads(plan, options));
  return load(build(plan, targets_of(options)[0], options), device, threads);
}

std::string why_not_here(const Engine& engine, const std::string& device) {
  if (!has_kernels(engine)) return "";
  const int gpu = gpu_of(device);
  const Target target = parse_target(engine.target);
  return why_not_runnable(target, gpu >= 0 ? find_target(cuda_architecture(gpu)) : host_cpu(target.threads));
}

std::shared_ptr<const LoadedEngine> load(Engine engine, const std::string& device, int threads) {
  const int gpu = gpu_of(device);
  const std::string reason = why_not_here(engine, device);
  GRAFT_USER_CHECK(reason.empty(), kUnsupported,
                   "this machine cannot run it: " + reason + "; compile the model here, or with another --target",
                   engine.name.empty() ? "engine" : engine.name);
  engine.threads = usable_threads(threads, engine.threads);
  const auto on = gpu >= 0 ? open_cuda_device(gpu) : nullptr;
  auto counted = std::make_shared<const CountedEngine>(engine.name, device);
  return load_code(std::make_shared<const Engine>(std::move(engine)), library_source(), on, host_kernel_source(),
                   std::move(counted));
}

}  // namespace graft
