// SPDX-License-Identifier: Apache-2.0
#include "inspection.h"

#include <nlohmann/json.hpp>

#include "runtime/device_code.h"

namespace graft {
namespace {

using nlohmann::json;

/// A number that is known, else null.
json known(double value) { return value >= 0 ? json(value) : json(nullptr); }

json tensor_json(const EngineTensor& tensor) {
  json shape = json::array();
  for (const Size& size : tensor.shape) shape.push_back(size.to_string());
  return {{"name", tensor.name}, {"type", name_of(tensor.type)}, {"shape", shape}};
}

json tensors_json(const Engine& engine, const std::vector<int>& tensors) {
  json list = json::array();
  for (const int tensor : tensors) list.push_back(tensor_json(engine.tensors[static_cast<size_t>(tensor)]));
  return list;
}

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

json step_json(const Engine& engine, size_t index, const Measurement* measured, const Bindings& bindings) {
  const EngineStep& step = engine.steps[index];
  json candidates = json::array();
  for (const Candidate& lost : step.candidates) {
    candidates.push_back({{"name", lost.name},
                          {"milliseconds", lost.milliseconds > 0 ? json(lost.milliseconds) : json(nullptr)},
                          {"reason", lost.reason}});
  }
  return {{"step", index},
          {"node", step.name},
          {"kind", name_of(step.kind)},
          {"kernel", step.kernel >= 0 ? engine.kernels[static_cast<size_t>(step.kernel)].name : ""},
          {"library", step.library},
          {"schedule", step.schedule},
          {"operators", step.operators},
          {"nodes", step.nodes},
          {"reads", names_json(engine, step, false)},
          {"writes", names_json(engine, step, true)},
          {"milliseconds", measured ? json(measured->milliseconds[index]) : json(nullptr)},
          {"operations", measured ? known(value_of(step.operations, bindings)) : json(nullptr)},
          {"bytes", measured ? known(value_of(step.bytes, bindings)) : json(nullptr)},
          {"halves", multiplies_halves(engine, step)},
          {"candidates", candidates}};
}

json memory_json(const Engine& engine, const Measurement* measured, const Bindings& bindings) {
  int64_t weights = 0;
  for (const TensorData& constant : engine.constants) weights += constant.byte_count();
  json tensors = json::array();
  for (const EngineTensor& tensor : engine.tensors) {
    if (tensor.storage != Storage::kArena || tensor.first_step < 0) continue;
    tensors.push_back({{"name", tensor.name},
                       {"bytes", measured ? known(value_of(tensor.bytes, bindings)) : json(nullptr)},
                       {"first_step", tensor.first_step},
                       {"last_step", tensor.last_step}});
  }
  return {{"weight_bytes", weights},
          {"arena_bytes", measured ? json(measured->arena_bytes) : json(nullptr)},
          {"tensors", tensors}};
}

}  // namespace

json inspection(const LoadedEngine& loaded, const Measurement* measured, const Bindings& bindings,
                const MachinePeak& peak) {
  const Engine& engine = *loaded.engine;
  json options = json::array(), symbols = json::array(), sizes = json::object(), steps = json::array();
  for (const auto& [key, value] : engine.options) options.push_back({{"key", key}, {"value", value}});
  for (const auto& [name, range] : engine.symbols) {
    symbols.push_back({{"name", name}, {"min", range.min}, {"opt", range.opt}, {"max", range.max}});
  }
  for (const auto& [name, value] : bindings) sizes[name] = value;
  for (size_t s = 0; s < engine.steps.size(); ++s) steps.push_back(step_json(engine, s, measured, bindings));
  json report = {{"name", engine.name},
                 {"target", engine.target},
                 {"device", loaded.device ? loaded.device->device->name() : "cpu"},
                 {"threads", engine.threads},
                 {"options", options},
                 {"symbols", symbols},
                 {"sizes", sizes},
                 {"inputs", tensors_json(engine, engine.inputs)},
                 {"outputs", tensors_json(engine, engine.outputs)},
                 {"steps", steps},
                 {"total_ms", measured ? json(measured->total) : json(nullptr)},
                 {"memory", memory_json(engine, measured, bindings)},
                 {"peak", nullptr}};
  if (measured && peak.gflops > 0) {
    report["peak"] = {{"gflops", peak.gflops},
                      {"half_gflops", peak.half_gflops},
                      {"gigabytes_per_s", peak.gigabytes_per_s}};
  }
  return report;
}

}  // namespace graft
