// SPDX-License-Identifier: Apache-2.0
// The driver: from a module to the module with engines.
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/jit/passes/freeze_module.h>
#include <torch/csrc/jit/passes/remove_mutation.h>

#include "failure.h"
#include "graft/torchscript.h"
#include "reader.h"
#include "sizes.h"
#include "writer.h"

namespace graft::torchscript {
namespace {

namespace jit = torch::jit;
using Choices = std::vector<std::pair<std::string, std::string>>;

std::vector<graft_option> as_options(const Choices& choices) {
  std::vector<graft_option> options;
  for (const auto& [key, value] : choices) options.push_back({key.c_str(), value.c_str()});
  return options;
}

/// The module with its parameters as constants and all calls inlined. A module that is frozen already is copied.
jit::Module frozen(const jit::Module& module) {
  TORCH_CHECK_VALUE(module.find_method("forward"), "the module has no method forward");
  if (!module.hasattr("training")) return module.clone();
  TORCH_CHECK_VALUE(!module.is_training(), "the module is in training mode: call eval() on it before");
  return jit::freeze_module(module);
}

/// A module on its way.
struct Grafting {
  jit::Module module;
  HostGraph host;
  std::unique_ptr<graft_host_partition, void (*)(graft_host_partition*)> partition{nullptr,
                                                                                   graft_host_partition_destroy};
};

Grafting split(const jit::Module& module, const Spec& spec) {
  Grafting made{.module = frozen(module), .host = {}};
  const std::shared_ptr<jit::Graph> graph = made.module.get_method("forward").graph();
  jit::RemoveTensorMutation(graph);
  made.host = read_graph(graph, known_sizes(*graph, spec));
  const std::vector<graft_option> options = as_options(spec.partition);
  graft_host_partition* partition = nullptr;
  graft_error error;
  check(graft_host_partition_create(made.host.handle.get(), options.data(), options.size(), &partition, &error), error);
  made.partition.reset(partition);
  return made;
}

/// Throws, naming each operator that stays with torch and why.
void check_full(const Grafting& made) {
  std::string staying;
  for (size_t node = 0; node < made.host.nodes.size(); ++node) {
    const std::string reason = graft_host_partition_reason(made.partition.get(), node);
    if (reason.empty() || !made.host.counts[node]) continue;
    const std::string source = source_of(*made.host.nodes[node]);
    staying += "\n  " + std::string(made.host.nodes[node]->kind().toQualString()) + ": " + reason +
               (source.empty() ? "" : " (" + source + ")");
  }
  TORCH_CHECK_NOT_IMPLEMENTED(staying.empty(), "require_full: these operators stay with torch:", staying);
}

/// The engine of a segment, or nothing when it cannot be built.
c10::intrusive_ptr<Engine> build(const Grafting& made, size_t segment, const Spec& spec) {
  std::string device = "cpu";
  for (const auto& [key, value] : spec.options) {
    if (key == "device") device = value;
  }
  const std::vector<graft_option> options = as_options(spec.options);
  graft_engine* engine = nullptr;
  graft_error error;
  const graft_status status = graft_host_partition_compile(made.partition.get(), segment, options.data(),
                                                           options.size(), nullptr, nullptr, &engine, &error);
  if (status == GRAFT_OK) return c10::make_intrusive<Engine>(engine, device);
  // A wrong choice is the caller's fault, whatever else could run.
  if (spec.strict || status == GRAFT_INVALID_ARGUMENT) check(status, error);
  graft_host_count_fallback(("segment " + std::to_string(segment)).c_str(), error.message);
  return {};
}

}  // namespace

torch::jit::Module compile(const torch::jit::Module& module, const Spec& spec, Report* report) {
  check_torch_version();
  Grafting made = split(module, spec);
  if (spec.require_full) check_full(made);
  std::vector<Part> parts;
  const size_t segments = graft_host_partition_segment_count(made.partition.get());
  for (size_t i = 0; i < segments; ++i) {
    if (auto engine = build(made, i, spec)) {
      parts.push_back({graft_host_partition_segment(made.partition.get(), i), std::move(engine)});
    }
  }
  if (report) {
    *report = {.engines = parts.size(), .fallbacks = segments - parts.size(),
               .text = graft_host_partition_report(made.partition.get())};
  }
  write_engines(made.module, made.host, parts);
  return std::move(made.module);
}

Report dry_run(const torch::jit::Module& module, const Spec& spec) {
  check_torch_version();
  const Grafting made = split(module, spec);
  return {.engines = graft_host_partition_segment_count(made.partition.get()), .fallbacks = 0,
          .text = graft_host_partition_report(made.partition.get())};
}

}  // namespace graft::torchscript
