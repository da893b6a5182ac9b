// SPDX-License-Identifier: Apache-2.0
#include "inspection.h"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>

#include <nlohmann/json.hpp>

#include "api/describe.h"
#include "driver/compile_options.h"
#include "runtime/device_code.h"
#include "target/target.h"

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
          {"bytes", measured ? known(moved_bytes(step, bindings)) : json(nullptr)},
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

/// The description of a machine, taken apart.
json machine_json(const Target& target) {
  json features = json::array();
  for (const std::string_view feature : split(target.features, ',')) {
    if (!feature.empty()) features.push_back(feature);
  }
  return {{"name", target.name},
          {"kind", target.kind == TargetKind::kCuda ? "cuda" : "cpu"},
          {"architecture", target.architecture},
          {"features", features},
          {"vector_bits", target.vector_bits},
          {"threads", target.threads},
          {"l1_bytes", target.l1_bytes},
          {"l2_bytes", target.l2_bytes},
          {"l3_bytes", target.l3_bytes},
          {"multiprocessors", target.multiprocessors},
          {"shared_bytes", target.shared_bytes}};
}

/// This process's command line, as a shell would take it but for quotes.
std::string command_text() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), {}};
  while (!words.empty() && words.back() == '\0') words.pop_back();
  std::replace(words.begin(), words.end(), '\0', ' ');
  const size_t program = words.find(' ');
  return program == words.npos ? "graft" : "graft" + words.substr(program);
}

std::string date_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  char text[32] = "";
  if (gmtime_r(&now, &utc)) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

json inspection(const LoadedEngine& loaded, const Measurement* measured, const Bindings& bindings,
                const MachinePeak& peak) {
  const Engine& engine = *loaded.engine;
  json report = json::parse(describe(engine));
  for (size_t s = 0; s < engine.steps.size(); ++s) {
    report["steps"][s].update(facts_of_step(engine, s, measured, bindings));
  }
  report["version"] = GRAFT_VERSION;
  report["command"] = command_text();
  report["date"] = date_text();
  report["machine"] = machine_json(parse_target(engine.target));
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
