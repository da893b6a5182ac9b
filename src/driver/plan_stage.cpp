// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/log.h"
#include "device/cuda/cuda_device.h"
#include "driver/record_use.h"
#include "driver/stages.h"
#include "library/libraries.h"
#include "modules/kernel_source.h"
#include "modules/library_source.h"

namespace graft {
namespace {

/// GRAFT_DUMP=tile and kernels: the tile programs, and what the code generator makes of them.
void dump_kernels(const Engine& engine, const Target& target) {
  for (const EngineKernel& kernel : engine.kernels) {
    dump("tile", kernel.name, [&] { return kernel.program; });
    if (!environment().wants_dump("kernels", kernel.name)) continue;
    write_dump(environment(), "kernels", kernel.name, kernel_source_text(kernel.program, target));
  }
}

/// The GPU that was asked for when it is what the target describes, else null.
std::shared_ptr<Device> device_of(const Target& target, const CompileOptions& options) {
  const int gpu = gpu_of(options.device);
  if (target.kind != TargetKind::kCuda || gpu < 0 || cuda_architecture(gpu) != target.architecture) return nullptr;
  return open_cuda_device(gpu);
}

/// What times measured on a GPU depend on beside the target.
std::string machine_of(const Device& device) {
  std::string machine = fmt::format("{}, driver {}", device.name(), cuda_driver_version());
  for (const LibraryInfo& library : all_libraries()) {
    if (library.target == TargetKind::kCuda) machine += ", " + library_version(std::string(library.name));
  }
  return machine;
}

}  // namespace

BuiltEngine plan(FusedProgram program, const Target& target, const CompileOptions& options, const Plan* known) {
  report(options, name_of(Stage::kPlan), fmt::format("{} steps", program.steps.size()));
  BuildOptions build{.target = target, .tuning = options.tuning};
  if (known) build.record = record_for(known->records, target), build.packed = &known->packed;
  if (!options.interpret) {
    // Asked between kernels, from any thread.
    const KernelProgress stop = [&](std::string_view) { return options.cancelled && options.cancelled(); };
    build.compile_kernels = [stop, use = options.kernel_use](const std::string& programs, const Target& machine) {
      return interruptible_kernel_code(programs, machine, stop, use);
    };
  }
  if (options.source_only) {
    build.compile_kernels = [](const std::string& programs, const Target& machine) {
      kernel_texts(programs, machine, /*with_ptx=*/false, /*with_cubin=*/false);
      return std::vector<std::byte>{};
    };
  }
  build.device = device_of(target, options);
  if (build.tuning != Tuning::kOff && !build.device && !why_not_runnable(target, host_cpu(target.threads)).empty()) {
    log(LogLevel::kStep, "{}: nothing can be measured here, so the cost model chooses", target.name);
    build.tuning = Tuning::kOff;
  }
  if (build.device || target.kind == TargetKind::kCpu) build.libraries = {library_source(), why_no_library};
  if (build.libraries.source) {
    build.libraries.refuses = library_refusal(build.device ? build.device->make_stream() : nullptr);
  }
  build.disabled = with_disabled(options).disabled;
  build.splits_operands = options.splits_operands;
  build.timings = build.device ? timing_cache(target, machine_of(*build.device)) : timing_cache(target);
  build.keep_references = environment().validate;
  build.choices_only = options.choices_only;
  build.cancelled = options.cancelled;
  build.progress = [&](const std::string& step, int done, int total) {
    report(options, name_of(Stage::kPlan), step, done, total);
  };
  BuiltEngine built = build_engine(std::move(program), build);
  dump("plan", "plan", [&] { return print(built.engine); });
  dump("record", "record", [&] { return print(built.record); });
  dump_kernels(built.engine, build.target);
  return built;
}

}  // namespace graft
