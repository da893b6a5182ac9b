// SPDX-License-Identifier: Apache-2.0
#include "load.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "check_kernels.h"
#include "engine/plan_file.h"
#include "kernel_source.h"
#include "target/target.h"

namespace graft {
namespace {

/// The programs of one compilation unit, in the order in which the planner hands them to the generator: the longest
/// first, so that the cache knows them.
std::string unit_text(const Engine& engine, int object) {
  std::vector<const EngineKernel*> kernels;
  for (const EngineKernel& kernel : engine.kernels) {
    if (kernel.object == object) kernels.push_back(&kernel);
  }
  std::stable_sort(kernels.begin(), kernels.end(), [](const EngineKernel* a, const EngineKernel* b) {
    return a->program.size() > b->program.size();
  });
  std::string text;
  for (const EngineKernel* kernel : kernels) text += kernel->program + "\n";
  return text;
}

/// Gives every unit that has none its code.
void complete(Engine& engine, const Target& target) {
  int units = static_cast<int>(engine.objects.size());
  for (const EngineKernel& kernel : engine.kernels) units = std::max(units, kernel.object + 1);
  engine.objects.resize(units);
  for (int unit = 0; unit < units; ++unit) {
    if (engine.objects[unit].empty()) engine.objects[unit] = kernel_code(unit_text(engine, unit), target);
  }
}

}  // namespace

bool is_plan(const std::string& path) {
  try {
    return looks_like_plan(MappedFile::open(path)->bytes());
  } catch (const Error&) {
    return false;
  }
}

std::shared_ptr<const LoadedEngine> load(Engine engine) {
  const Target target = parse_target(engine.target);
  if (!engine.kernels.empty()) {
    const std::string reason = why_not_runnable(target, host_cpu(target.threads));
    GRAFT_USER_CHECK(reason.empty(), kUnsupported,
                     "this machine cannot run it: " + reason + "; compile the model here, or with another --target",
                     engine.name.empty() ? "engine" : engine.name);
    complete(engine, target);
  }
  return load_code(std::make_shared<const Engine>(std::move(engine)));
}

std::shared_ptr<const LoadedEngine> load(const std::string& path) {
  Engine engine = load_plan(path);
  check_kernels(engine);
  return load(std::move(engine));
}

}  // namespace graft
