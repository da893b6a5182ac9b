// SPDX-License-Identifier: Apache-2.0
#include "inspection.h"

#include <nlohmann/json.hpp>

#include "api/describe.h"
#include "runtime/device_code.h"

namespace graft {
namespace {

using nlohmann::json;

/// A number that is known, else null.
json known(double value) { return value >= 0 ? json(value) : json(nullptr); }

/// The tensor whose memory this one is.
int root_of(const Engine& engine, int tensor) {
  while (engine.tensors[static_cast<size_t>(tensor)].storage == Storage::kAlias) {
    tensor = engine.tensors[static_cast<size_t>(tensor)].index;
  }
  return tensor;
}

/// The names of what a step reads or writes, without constants.
json names_json(const Engine& engine, const EngineStep& step, bool written) {
  json names = json::array();
  const auto inputs = static_cast<size_t>(step.input_count);
  for (size_t a = written ? inputs : 0; a < (written ? step.tensors.size() : inputs); ++a) {
    const EngineTensor& tensor = engine.tensors[static_cast<size_t>(root_of(engine, step.tensors[a]))];
    if (tensor.storage != Storage::kConstant) names.push_back(tensor.name);
  }
  return names;
}

/// What a step's description does not say: its tensors, and what a run tells.
json facts_of_step(const Engine& engine, size_t index, const Measurement* measured, const Bindings& bindings) {
  const EngineStep& step = engine.steps[index];
  return {{"step", index},
          {"reads", names_json(engine, step, false)},
          {"writes", names_json(engine, step, true)},
          {"milliseconds", measured ? json(measured->milliseconds[index]) : json(nullptr)},
          {"operations", measured ? known(value_of(step.operations, bindings)) : json(nullptr)},
          {"bytes", measured ? known(value_of(step.bytes, bindings)) : json(nullptr)},
          {"halves", multiplies_halves(engine, step)}};
}

json memory_json(const Engine& engine, const Measurement* measured, const Bindings& bindings) {
  json tensors = json::array();
  for (const EngineTensor& tensor : engine.tensors) {
    if (tensor.storage != Storage::kArena || tensor.first_step < 0) continue;
    tensors.push_back({{"name", tensor.name},
                       {"bytes", measured ? known(value_of(tensor.bytes, bindings)) : json(nullptr)},
                       {"first_step", tensor.first_step},
                       {"last_step", tensor.last_step}});
  }
  return {{"arena_bytes", measured ? json(measured->arena_bytes) : json(nullptr)}, {"tensors", tensors}};
}

}  // namespace

json inspection(const LoadedEngine& loaded, const Measurement* measured, const Bindings& bindings,
                const MachinePeak& peak) {
  const Engine& engine = *loaded.engine;
  json report = json::parse(describe(engine));
  for (size_t s = 0; s < engine.steps.size(); ++s) {
    report["steps"][s].update(facts_of_step(engine, s, measured, bindings));
  }
  report["device"] = loaded.device ? loaded.device->device->name() : "cpu";
  report["sizes"] = json::object();
  for (const auto& [name, value] : bindings) report["sizes"][name] = value;
  report["total_ms"] = measured ? json(measured->total) : json(nullptr);
  report["memory"] = memory_json(engine, measured, bindings);
  report["peak"] = nullptr;
  if (measured && peak.gflops > 0) {
    report["peak"] = {{"gflops", peak.gflops},
                      {"half_gflops", peak.half_gflops},
                      {"gigabytes_per_s", peak.gigabytes_per_s}};
  }
  return report;
}

}  // namespace graft
