// SPDX-License-Identifier: Apache-2.0
// The driver: from a module to the module with engines.
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/jit/passes/freeze_module.h>

#include "failure.h"
#include "graft/torchscript.h"
#include "inputs.h"
#include "learning.h"
#include "lower.h"
#include "mixer.h"
#include "observe.h"
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
jit::Module frozen(const jit::Module& module, const std::string& method) {
  TORCH_CHECK_VALUE(module.find_method(method), "the module has no method ", method);
  if (!module.hasattr("training")) return module.clone();
  TORCH_CHECK_VALUE(!module.is_training(), "the module is in training mode: call eval() on it before");
  return jit::freeze_module(module, {method});
}

/// A module on its way.
struct Grafting {
  jit::Module module;
  Spec spec;
  std::vector<std::string> warnings;
  std::vector<Guard> defaults;
  Lowered lowered;
  HostGraph host;
  std::unique_ptr<graft_host_partition, void (*)(graft_host_partition*)> partition{nullptr,
                                                                                   graft_host_partition_destroy};
};

/// Arguments get the names that the method's declaration has.
void name_arguments(jit::Graph& graph, const c10::FunctionSchema& schema) {
  for (size_t i = 1; i < graph.inputs().size() && i < schema.arguments().size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    if (is_value_name(name)) graph.inputs()[i]->setDebugName(name);
  }
}

/// Arguments that are not described have their defaults, which become constants.
std::vector<Guard> fix_defaults(jit::Graph& graph, const c10::FunctionSchema& schema, const Spec& spec) {
  std::vector<Guard> guards;
  const size_t taken = graph.inputs().size() - 1, described = spec.inputs.size();
  for (size_t i = described + 1; i <= taken; ++i) {
    const c10::Argument& argument = schema.arguments().at(i);
    TORCH_CHECK_VALUE(argument.default_value(), "inputs: ", spec.method, " takes ", taken, " arguments, ", described,
                      " are described, and '", argument.name(), "' has no default");
    const jit::WithInsertPoint at_the_begin(*graph.nodes().begin());
    graph.inputs()[i]->replaceAllUsesWith(graph.insertConstant(*argument.default_value()));
    guards.push_back({.argument = i, .default_value = *argument.default_value(), .sizes = {}});
  }
  return guards;
}

/// The module frozen, its method lowered.
Grafting prepare(const jit::Module& module, const Spec& spec,
                 const std::function<void(const std::string& pass, const jit::Graph& graph)>& observe = {}) {
  check_torch_version();
  Grafting made;
  made.module = frozen(module, spec.method);
  const jit::Method method = made.module.get_method(spec.method);
  std::shared_ptr<jit::Graph> graph = method.graph();
  name_arguments(*graph, method.function().getSchema());
  made.defaults = fix_defaults(*graph, method.function().getSchema(), spec);
  made.spec = resolve_inputs(*graph, spec, made.warnings);
  if (observe) observe("frozen", *graph);
  made.lowered = lower(graph, made.module, made.spec, [&](const std::string& pass) {
    if (observe) observe(pass, *graph);
  });
  return made;
}

/// Reads the graph with what is known of its values, and divides it.
void divide(Grafting& made, const std::shared_ptr<jit::Graph>& graph, const KnownSizes& known, bool join) {
  made.host = read_graph(graph, known);
  std::vector<graft_option> options = as_options(made.spec.partition);
  if (join) options.push_back({"join", "true"});
  graft_host_partition* partition = nullptr;
  graft_error error;
  check(graft_host_partition_create(made.host.handle.get(), options.data(), options.size(), &partition, &error), error);
  made.partition.reset(partition);
}

/// Whether an operator stays with torch.
bool keeps_some(const Grafting& made) {
  for (size_t node = 0; node < made.host.nodes.size(); ++node) {
    if (made.host.counts[node] && *graft_host_partition_reason(made.partition.get(), node)) return true;
  }
  return false;
}

Grafting split(const jit::Module& module, const Spec& spec, bool join = false) {
  Grafting made = prepare(module, spec);
  const std::shared_ptr<jit::Graph> graph = made.module.get_method(spec.method).graph();
  KnownSizes known = known_sizes(*graph, made.spec);
  divide(made, graph, known, join);
  if (!keeps_some(made)) return made;
  try {  // of what those give the types may be unknown, which keeps those behind them
    if (observe_types(made.module, graph, made.spec, known)) divide(made, graph, known, join);
  } catch (const std::exception& fault) {
    made.warnings.push_back(c10::str("types that only a run tells stay unknown: with sample inputs the method says: ",
                                     fault.what()));
  }
  return made;
}

/// A line for each operator that stays with torch.
std::vector<std::string> staying(const Grafting& made) {
  std::vector<std::string> lines;
  for (size_t node = 0; node < made.host.nodes.size(); ++node) {
    const std::string reason = graft_host_partition_reason(made.partition.get(), node);
    const jit::Node& each = *made.host.nodes[node];
    if (reason.empty() || (!made.host.counts[node] && each.blocks().empty() && !each.hasSideEffects())) continue;
    const std::string source = source_of(each);
    lines.push_back(std::string(each.kind().toQualString()) + ": " + reason +
                    (source.empty() ? "" : " (" + source + ")"));
  }
  return lines;
}

/// Throws, naming each operator that stays with torch and why.
void check_full(const Grafting& made, const char* who) {
  std::string text;
  for (const std::string& line : staying(made)) text += "\n  " + line;
  TORCH_CHECK_NOT_IMPLEMENTED(text.empty(), who, ": these operators stay with torch:", text,
                              "\nwrite them with others, add converters for them, or do without ", who);
}

std::string device_of(const Spec& spec) {
  std::string device = "cpu";
  for (const auto& [key, value] : spec.options) {
    if (key == "device") device = value;
  }
  return device;
}

/// Where engines come from: they are compiled, or are there already, by their names in the order of the segments.
struct EngineSource {
  const std::vector<std::string>& names;
  size_t next = 0;
};

/// A graph or a block of it with its segments, and what errors call these.
struct Divided {
  const HostGraph& host;
  const graft_host_partition* partition;
  std::string where;  ///< ` inside of y.1 (body)`
  EngineSource& engines;
};

/// The next engine of a source, of int8 if it has learned to be.
graft_status find_engine(EngineSource& source, graft_engine** engine, graft_error* error) {
  TORCH_CHECK(source.next < source.names.size(), "the module was divided otherwise than the one that learned");
  graft_engine* const named = graft_host_find_engine(source.names[source.next++].c_str());
  TORCH_CHECK(named, "an engine that learned has gone");
  const std::unique_ptr<graft_engine, void (*)(graft_engine*)> owner(named, graft_engine_release);
  return graft_engine_finish_calibration(named, nullptr, nullptr, engine, error);
}

/// Whether a node reads a value, also in its blocks.
bool reads(const jit::Node& node, const jit::Value* value) {
  bool found = false;
  visit_uses(node, [&](const jit::Value* each) { found |= each == value; });
  return found;
}

/// Whether the method takes a value, rather than computes it.
bool is_argument(const jit::Value& value) {
  return value.node()->kind() == c10::prim::Param && !value.node()->owningBlock()->owningNode();
}

/// What errors and counts call a segment, and who reads each of its inputs first.
EngineSettings settings_of(const Spec& spec, const Divided& divided, size_t index) {
  const graft_host_segment& segment = *graft_host_partition_segment(divided.partition, index);
  EngineSettings settings{.device = device_of(spec), .name = "segment " + std::to_string(index) + divided.where,
                          .has_native = !spec.strict, .readers = {}, .computed = {}, .weights = {}};
  for (size_t i = 0; i < segment.input_count; ++i) {
    if (!is_argument(*divided.host.values[static_cast<size_t>(segment.inputs[i])])) {
      settings.computed.push_back(static_cast<int64_t>(i));
    }
    std::string reader;
    for (size_t n = 0; n < segment.node_count && reader.empty(); ++n) {
      const jit::Node& node = *divided.host.nodes[static_cast<size_t>(segment.nodes[n])];
      if (!reads(node, divided.host.values[static_cast<size_t>(segment.inputs[i])])) continue;
      const std::string source = source_of(node);
      reader = node.kind().toQualString() + (source.empty() ? "" : " (" + source + ")");
    }
    settings.readers.push_back(std::move(reader));
  }
  return settings;
}

bool asks_for_int8(const Spec& spec) {
  return std::any_of(spec.options.begin(), spec.options.end(), [](const auto& option) {
    const std::string& value = option.second;
    return option.first == "precision" && (value == "int8" || value == "fp8" || value == "int4");
  });
}

/// The engine of a segment, or nothing when it cannot be built.
c10::intrusive_ptr<Engine> build(const Spec& spec, const Divided& divided, size_t segment) {
  const std::vector<graft_option> options = as_options(spec.options);
  graft_engine* engine = nullptr;
  graft_error error;
  const graft_status status =
      divided.engines.names.empty()
          ? graft_host_partition_compile(divided.partition, segment, options.data(), options.size(), nullptr, nullptr,
                                         &engine, &error)
          : find_engine(divided.engines, &engine, &error);
  EngineSettings settings = settings_of(spec, divided, segment);
  if (status == GRAFT_OK) return c10::make_intrusive<Engine>(engine, std::move(settings));
  // A wrong choice is the caller's fault, whatever else could run; nothing less is built where int8 was asked for.
  if (spec.strict || status == GRAFT_INVALID_ARGUMENT || asks_for_int8(spec)) check(status, error);
  graft_host_count_fallback(settings.name.c_str(), error.message);
  return {};
}

/// All engines that can be built, also those inside of blocks that stay.
Parts build_all(const Spec& spec, const Divided& divided, Report& counts) {
  Parts made{.host = &divided.host};
  const size_t segments = graft_host_partition_segment_count(divided.partition);
  for (size_t i = 0; i < segments; ++i) {
    if (auto engine = build(spec, divided, i)) {
      made.parts.push_back({graft_host_partition_segment(divided.partition, i), std::move(engine)});
    }
  }
  for (const Part& part : made.parts) counts.text += part.engine->quantization();
  counts.engines += made.parts.size(), counts.fallbacks += segments - made.parts.size();
  for (const auto& [place, body] : divided.host.bodies) {
    const graft_host_partition* inner = graft_host_partition_body(divided.partition, place.first, place.second.c_str());
    const jit::Node& node = *divided.host.nodes[place.first];
    const std::string name = node.outputs().empty() ? node.kind().toQualString() : node.outputs()[0]->debugName();
    const std::string where = " inside of " + name + " (" + place.second + ")" + divided.where;
    if (inner) made.blocks.push_back(build_all(spec, {*body, inner, where, divided.engines}, counts));
  }
  return made;
}

/// Inputs of other sizes than those that became constants are refused.
std::vector<Guard> guards_of(const Grafting& made) {
  std::vector<Guard> guards = made.defaults;
  if (!made.lowered.fixed_sizes) return guards;
  for (size_t i = 0; i < made.spec.inputs.size(); ++i) {
    const Input& input = made.spec.inputs[i];
    if (input.kind != Input::Kind::kTensor) continue;
    Guard guard{.argument = i + 1, .sizes = {}, .dtype = input.dtype};
    for (const Axis& axis : input.shape) {
      const Range* range = axis.dimension.empty() ? nullptr : &range_of(made.spec, axis.dimension, "");
      guard.sizes.push_back(!range ? axis.size : range->min == range->max ? range->min : -1);
    }
    guards.push_back(std::move(guard));
  }
  return guards;
}

}  // namespace

namespace {

/// Publishes all engines of a module's parts.
void publish(const Parts& parts, LearningModule& learning) {
  for (const Part& part : parts.parts) {
    learning.engines.push_back(part.engine->publish());
    learning.learns |= part.engine->learns();
  }
  for (const Parts& block : parts.blocks) publish(block, learning);
}

}  // namespace

LearningModule learning_module(const torch::jit::Module& module, const Spec& spec) {
  Spec strict = spec;
  strict.strict = true;
  Grafting made = split(module, strict);
  const std::vector<std::string> none;
  EngineSource compiled{none};
  Report counts;
  const Parts parts = build_all(made.spec, {made.host, made.partition.get(), "", compiled}, counts);
  LearningModule learning{.module = made.module, .engines = {}};
  publish(parts, learning);
  write_engines(learning.module, spec.method, parts, guards_of(made));
  return learning;
}

torch::jit::Module compile_with(const torch::jit::Module& module, const Spec& spec,
                                const std::vector<std::string>& engines, Report* report) {
  EngineSource source{engines};
  Grafting made = split(module, spec);
  if (spec.require_full) check_full(made, "require_full");
  Report said{.text = graft_host_partition_report(made.partition.get()), .warnings = made.warnings};
  const Parts parts = build_all(made.spec, {made.host, made.partition.get(), "", source}, said);
  if (report) {
    *report = std::move(said);
  } else {
    for (const std::string& warning : made.warnings) TORCH_WARN("graft: ", warning);
  }
  write_engines(made.module, spec.method, parts, guards_of(made));
  return std::move(made.module);
}

Report dry_run(const torch::jit::Module& module, const Spec& spec) {
  const Grafting made = split(module, spec);
  return {.engines = graft_host_partition_segment_count(made.partition.get()), .fallbacks = 0,
          .text = graft_host_partition_report(made.partition.get()), .warnings = made.warnings};
}

std::vector<std::string> check_operator_support(const torch::jit::Module& module, const Spec& spec) {
  return staying(split(module, spec));
}

std::vector<std::pair<std::string, std::string>> lowering_steps(const torch::jit::Module& module, const Spec& spec) {
  std::vector<std::pair<std::string, std::string>> steps;
  prepare(module, spec, [&](const std::string& pass, const jit::Graph& graph) {
    steps.emplace_back(pass, graph.toString(false));
  });
  return steps;
}

torch::jit::Module mix(const torch::jit::Module& module, const Spec& spec, const std::string& request, size_t* casts) {
  Grafting made = prepare(module, spec);
  const std::shared_ptr<jit::Graph> graph = made.module.get_method(spec.method).graph();
  made.host = read_graph(graph, known_sizes(*graph, made.spec));
  std::vector<graft_host_reading> readings;
  graft_error error;
  const auto take = [](void* context, const graft_host_reading* given, size_t count) {
    static_cast<std::vector<graft_host_reading>*>(context)->assign(given, given + count);
  };
  check(graft_host_graph_mix(made.host.handle.get(), request.c_str(), &readings, take, &error), error);
  const size_t inserted = write_casts(graph, made.host, readings);
  if (casts) *casts = inserted;
  for (const std::string& warning : made.warnings) TORCH_WARN("graft: ", warning);
  write_engines(made.module, spec.method, {.host = &made.host}, guards_of(made));
  return std::move(made.module);
}

std::string convert_to_plan(const torch::jit::Module& module, const Spec& spec) {
  Spec strict = spec;
  strict.strict = true;
  const Grafting made = split(module, strict, true);
  check_full(made, "convert_to_plan");
  const size_t segments = graft_host_partition_segment_count(made.partition.get());
  TORCH_CHECK_NOT_IMPLEMENTED(segments == 1, "convert_to_plan: the method has ", segments,
                              " parts that engines can do, and a plan is one:\n",
                              graft_host_partition_report(made.partition.get()));
  const std::vector<std::string> none;
  EngineSource compiled{none};
  return build(made.spec, {made.host, made.partition.get(), "", compiled}, 0)->plan_bytes();
}

}  // namespace graft::torchscript
