// SPDX-License-Identifier: Apache-2.0
#include "driver/embed.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/import_budget.h"
#include "driver/compile.h"
#include "driver/fallbacks.h"
#include "driver/shape_choices.h"
#include "export/tensorflow/replace_segments.h"
#include "graph/symbols.h"
#include "import/tensorflow/raise_control_flow.h"
#include "import/tensorflow/read_graph.h"
#include "import/tensorflow/rows.h"

namespace graft {
namespace {

using Raised = std::optional<tensorflow::RaisedGraph>;

/// What an engine's node has: a plan, or the name of what learns.
struct Built {
  std::vector<std::byte> plan;
  std::string learning;
};

std::vector<std::byte> plan_of(const Compiled& compiled) { return print_plan(to_file(compiled.plan)); }

Built build_int8(const HostPartition& partition, size_t segment, const EmbedChoices& choices,
                 const CompileOptions& options, Embedded& made) {
  const SegmentGraphs segments{partition.result.segments.size(),
                               [&](size_t number) { return segment_graph(partition, number, options); }};
  Int8Engine engine = compile_int8(segments, segment, choices.int8, options);
  if (!engine.compiled) return {.plan = {}, .learning = choices.publish(std::move(engine), options)};
  if (engine.report) made.report += fmt::format("segment {} is of int8:\n{}\n", segment, print(*engine.report));
  return {.plan = plan_of(*engine.compiled), .learning = {}};
}

/// Nothing where the engine cannot be built and the caller takes that.
std::optional<Built> build_engine(const HostPartition& partition, size_t segment, const EmbedChoices& choices,
                                  Embedded& made) {
  CompileOptions options = choices.compile;
  options.shapes.clear(), options.dims.clear();
  if (choices.int8.asked) return build_int8(partition, segment, choices, options, made);
  try {
    const Compiled compiled = compile_from(segment_graph(partition, segment, options), Stage::kImport, options);
    return Built{.plan = plan_of(compiled), .learning = {}};
  } catch (const Error& error) {
    const bool callers = error.kind() == ErrorKind::kInvalidArgument || error.kind() == ErrorKind::kCancelled;
    if (choices.strict || callers) throw;
    made.report += fmt::format("segment {} stays: its engine cannot be built: {}\n", segment, error.what());
    count_fallback(fmt::format("segment {}", segment), error.what());
    return std::nullopt;
  }
}

/// Nodes that the rewritten graph cannot give up: an output other than the first of a node keeps the node.
void keep_outputs(HostGraph& host, const Raised& raised) {
  for (frontend::ForeignNode& node : host.foreign.nodes) {
    if (node.op == "PlaceholderWithDefault") node.kept = "a caller may feed it";
    for (size_t i = 1; i < node.outputs.size(); ++i) {
      const std::string& name = host.foreign.values[static_cast<size_t>(node.outputs[i])].name;
      if (raised && raised->tensors.contains(name)) continue;  // the first result of a node that it stands for
      for (const int output : host.foreign.outputs) {
        if (output == node.outputs[i]) node.kept = "the graph gives a result of it that is not its first";
      }
    }
  }
}

/// `x_0=8`
void set_usual(EmbedChoices& choices, OptionText choice) {
  const size_t equals = choice.value.rfind('=');
  int64_t size = 0;
  const char* end = choice.value.data() + choice.value.size();
  const auto [stop, fault] = std::from_chars(choice.value.data() + std::min(equals, choice.value.size() - 1) + 1, end,
                                             size);
  GRAFT_USER_CHECK(equals != 0 && equals != choice.value.npos && fault == std::errc() && stop == end && size >= 1,
                   kInvalidArgument, fmt::format("'{}' is not NAME=SIZE", choice.value), "usual");
  choices.usual[std::string(choice.value.substr(0, equals))] = size;
}

/// By symbols: an open size `image:0_0` is called `image_0_0` in a graph.
std::map<std::string, Graph::Range, std::less<>> ranges_of(const EmbedChoices& choices) {
  std::map<std::string, Graph::Range, std::less<>> ranges;
  for (const auto& [name, size] : choices.usual) ranges[dimension_symbol(name)] = {.min = 1, .opt = size, .max = 0};
  for (const auto& [name, range] : choices.compile.dims) ranges[dimension_symbol(name)] = range;
  return ranges;
}

void check_ranges(const HostGraph& host) {
  std::set<std::string, std::less<>> symbols;
  for (const int input : host.foreign.inputs) {
    for (const Size& size : host.foreign.values[static_cast<size_t>(input)].shape.value_or(Shape{})) {
      size.collect_symbols(symbols);
    }
  }
  for (const auto& [symbol, range] : host.ranges) {
    GRAFT_USER_CHECK(symbols.contains(symbol), kInvalidArgument,
                     fmt::format("no input of the graph has an open size '{}'", symbol), "dim");
  }
}

/// Outputs as the graph calls them whose control flow was raised.
std::vector<std::string> outputs_now(const Raised& raised, const std::vector<std::string>& outputs) {
  std::vector<std::string> made;
  for (const std::string& output : outputs) {
    const tensorflow::Source source = tensorflow::parse_source(output, "outputs");
    const tensorflow::Source now = raised ? raised->now(source) : source;
    made.push_back(source.control ? output : tensorflow::spell(now.node, now.index));
  }
  return made;
}

/// A node's nodes of the file: of control flow all that it was raised of.
void add_nodes(std::vector<int>& nodes, const Raised& raised, int node) {
  if (!raised) return nodes.push_back(node);
  const std::vector<int>& all = raised->stands_for[static_cast<size_t>(node)];
  nodes.insert(nodes.end(), all.begin(), all.end());
}

Embedded embed_tensorflow(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                          const std::vector<std::string>& outputs, const EmbedChoices& choices) {
  report(choices.compile, name_of(Stage::kImport), "from memory");
  const tensorflow::GraphFile file(bytes, std::move(owner));
  HostGraph host{.foreign = {}, .counts = {}, .replicable = {}, .ranges = ranges_of(choices),
                 .frontend = "tensorflow"};
  const auto converters = find_converters(host.frontend, choices.partition.converters);
  Raised raised;
  tensorflow::ReadGraph read;
  within_import_budget(choices.compile.cancelled, "", [&] {
    allow_import(bytes.size());
    raised = tensorflow::raise_control_flow(file, /*drops_checks=*/false);
    read = tensorflow::read_graph(raised ? raised->file : file, outputs_now(raised, outputs), choices.compile.shapes,
                                  *converters);
  });
  for (size_t n = 0; raised && n < read.constant.size(); ++n) {
    if (raised->stands_for[n].empty()) read.constant[n] = false;  // it is there, unless an engine takes what it became
  }
  host.foreign = std::move(read.foreign);
  host.foreign.name = "graph";
  host.counts = std::move(read.counts);
  host.inner = std::move(read.lists);
  host.stated_borders = choices.build;
  host.replicable.assign(host.counts.size(), false);
  keep_outputs(host, raised);
  check_ranges(host);
  const HostPartition partition = partition_host_graph(host, choices.partition);
  Embedded made{.report = report(partition)};
  std::vector<tensorflow::EngineNode> engines;
  const auto tensor = [&](int index) {
    const frontend::ForeignValue& value = partition.foreign.values[static_cast<size_t>(index)];
    return tensorflow::EngineTensor{.name = raised ? raised->before(value.name) : value.name, .type = value.type,
                                    .shape = value.shape};
  };
  for (size_t s = 0; s < partition.result.segments.size(); ++s) {
    const partition::Segment& segment = partition.result.segments[s];
    tensorflow::EngineNode engine{.nodes = {}, .inputs = {}, .outputs = {},
                                  .plan = {}, .device = choices.compile.device};
    if (choices.build) {
      std::optional<Built> built = build_engine(partition, s, choices, made);
      if (!built) continue;
      engine.plan = std::move(built->plan), engine.learning = std::move(built->learning);
    }
    for (const int node : segment.nodes) add_nodes(engine.nodes, raised, read.file_nodes[static_cast<size_t>(node)]);
    for (const int input : segment.inputs) engine.inputs.push_back(tensor(input));
    for (const int output : segment.outputs) engine.outputs.push_back(tensor(output));
    engines.push_back(std::move(engine));
  }
  made.engines = engines.size();
  made.bytes = tensorflow::replace_segments(file, engines, outputs, read);
  return made;
}

}  // namespace

void set_choice(EmbedChoices& choices, OptionText choice) {
  if (is_partition_choice(choice.key)) return set_choice(choices.partition, choice);
  if (choice.key == "usual") return set_usual(choices, choice);
  if (choice.key != "strict" && choice.key != "build") return set_option(choices.compile, choice);
  GRAFT_USER_CHECK(choice.value == "true" || choice.value == "false", kInvalidArgument,
                   fmt::format("'{}' is neither true nor false", choice.value), std::string(choice.key));
  (choice.key == "build" ? choices.build : choices.strict) = choice.value == "true";
}

Embedded embed(std::string_view format, std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
               const std::vector<std::string>& outputs, const EmbedChoices& choices) {
  GRAFT_USER_CHECK(format == "tensorflow", kInvalidArgument, fmt::format("'{}' is none of: tensorflow", format),
                   "format");
  const CompileOptions& compile = choices.compile;
  GRAFT_USER_CHECK(compile.min_shapes.empty() && compile.opt_shapes.empty() && compile.max_shapes.empty(),
                   kInvalidArgument, "ranges of sizes are stated by `dim`", "options");
  Embedded made;
  run_by_deadline(compile, [&](const CompileOptions& timed) {
    EmbedChoices limited = choices;
    limited.compile = timed;
    made = embed_tensorflow(bytes, owner, outputs, limited);
  });
  return made;
}

}  // namespace graft
