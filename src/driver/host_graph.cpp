// SPDX-License-Identifier: Apache-2.0
#include "driver/host_graph.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "driver/host_operators.h"
#include "driver/shape_choices.h"
#include "frontend/user_rows.h"
#include "import/aten/rows.h"
#include "import/mxnet/rows.h"
#include "import/tensorflow/rows.h"

namespace graft {
namespace {

using frontend::ForeignGraph;
using frontend::ForeignNode;
using frontend::ForeignValue;

constexpr std::string_view kPartitionChoices[] = {"minimum-size", "minimum-gain", "most-segments", "exclude-op",
                                                  "exclude", "only", "join", "converters", "ops"};
constexpr size_t kListed = 12;  // nodes of a segment that a report names

int64_t bytes_of(const ForeignValue& value) {
  if (!value.shape || value.type == DType::kUndefined) return 0;
  int64_t count = 1;
  for (const Size& size : *value.shape) {
    const auto extent = size.as_constant();
    if (!extent || *extent < 0 || (*extent > 0 && count > INT64_MAX / 64 / *extent)) return 0;
    count *= *extent;
  }
  return packed_bytes(value.type, count);
}

partition::AbstractGraph abstract(const HostGraph& graph, const ForeignGraph& foreign, bool pairs_complex) {
  partition::AbstractGraph made;
  for (size_t v = 0; v < foreign.values.size(); ++v) {
    const ForeignValue& value = foreign.values[v];
    bool inner = v < graph.inner.size() && graph.inner[v];
    inner = inner || value.type == DType::kString;  // each framework holds texts in its own way
    inner = inner || (pairs_complex && kind_of(value.type) == DTypeKind::kComplex);
    inner = inner || (graph.stated_borders && (value.type == DType::kUndefined || !value.shape));
    made.values.push_back({.producer = -1, .bytes = bytes_of(value), .crosses = value.tensor && !inner});
  }
  for (size_t n = 0; n < foreign.nodes.size(); ++n) {
    const ForeignNode& node = foreign.nodes[n];
    partition::Node added{.name = node.name, .op = node.op, .scope = node.scope, .outputs = node.outputs,
                          .after = node.after, .counts = graph.counts[n], .replicable = graph.replicable[n]};
    frontend::visit_references(node, [&](int value) {
      if (!foreign.values[value].constant) added.inputs.push_back(value);  // an engine has constants of its own
    });
    for (const int output : node.outputs) made.values[output].producer = static_cast<int>(n);
    made.nodes.push_back(std::move(added));
  }
  made.inputs = foreign.inputs, made.outputs = foreign.outputs;
  return made;
}

/// Whether a name is the prefix, or lies within it: `backbone` holds `backbone.conv1` and `backbone/conv1`.
bool within(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  return name.size() == prefix.size() || name[prefix.size()] == '.' || name[prefix.size()] == '/';
}

bool is_named(const ForeignNode& node, std::string_view name) {
  return within(node.name, name) || within(node.scope, name);
}

/// Why the caller keeps a node, or nothing.
std::string kept_by_choice(const ForeignNode& node, const PartitionChoices& choices) {
  for (const std::string& op : choices.excluded_ops) {
    if (node.op == op) return fmt::format("the operator {} was excluded", op);
  }
  for (const std::string& name : choices.excluded) {
    if (is_named(node, name)) return fmt::format("'{}' was excluded", name);
  }
  if (choices.only.empty()) return "";
  const bool wanted = std::any_of(choices.only.begin(), choices.only.end(),
                                  [&](const std::string& name) { return is_named(node, name); });
  return wanted ? "" : fmt::format("it is outside of {}", fmt::join(choices.only, ", "));
}

/// Whether a node of the graph, or of its functions, fulfils a condition.
template <class Fits>
bool any_node(const ForeignGraph& foreign, const Fits& fits) {
  return std::ranges::any_of(foreign.nodes, [&](const ForeignNode& node) {
    return fits(node) ||
           std::ranges::any_of(node.bodies, [&](const auto& each) { return any_node(*each.second, fits); });
  });
}

/// The graph whose functions keep what the caller keeps.
ForeignGraph with_choices(const ForeignGraph& foreign, const PartitionChoices& choices) {
  ForeignGraph made = foreign;
  for (ForeignNode& node : made.nodes) {
    for (auto& [name, body] : node.bodies) {
      auto inner = std::make_shared<ForeignGraph>(with_choices(*body, choices));
      for (ForeignNode& each : inner->nodes) {
        if (each.kept.empty()) each.kept = kept_by_choice(each, choices);
      }
      body = std::move(inner);
    }
  }
  return made;
}

void check_choices(const ForeignGraph& foreign, const PartitionChoices& choices) {
  const auto check = [&](const std::vector<std::string>& names, std::string_view option, const auto& fits) {
    for (const std::string& name : names) {
      const bool found = any_node(foreign, [&](const ForeignNode& node) { return fits(node, name); });
      GRAFT_USER_CHECK(found, kInvalidArgument, fmt::format("the graph has nothing that '{}' names", name),
                       std::string(option));
    }
  };
  const auto is_op = [](const ForeignNode& node, const std::string& op) { return node.op == op; };
  check(choices.excluded_ops, "exclude-op", is_op);
  check(choices.excluded, "exclude", is_named);
  check(choices.only, "only", is_named);
}

int number(OptionText choice) {
  int value = 0;
  const char* end = choice.value.data() + choice.value.size();
  const auto [stop, fault] = std::from_chars(choice.value.data(), end, value);
  GRAFT_USER_CHECK(fault == std::errc() && stop == end && value >= 0, kInvalidArgument,
                   fmt::format("'{}' is no number of zero or more", choice.value), std::string(choice.key));
  return value;
}

/// By value: whether a node or the caller reads it.
std::vector<bool> used_values(const ForeignGraph& foreign) {
  std::vector<bool> used(foreign.values.size(), false);
  for (const ForeignNode& node : foreign.nodes) {
    frontend::visit_references(node, [&](int value) { used[value] = true; });
  }
  for (const int output : foreign.outputs) used[output] = true;
  return used;
}

/// Why a converted node cannot be taken: a row may leave results out that are rarely wanted. Lists are the tensors in
/// them, and cross no border; who reads a number that is not given refuses itself.
std::string missing_result(const ForeignGraph& foreign, int node, const frontend::Converted& converted,
                           const std::vector<bool>& used) {
  for (const int output : foreign.nodes[node].outputs) {
    const bool given = converted.values[output] != kNoValue || converted.complexes.contains(output);
    if (!used[output] || given || !foreign.values[output].tensor) continue;
    return fmt::format("its converter does not give the result '{}', which is used", foreign.values[output].name);
  }
  return "";
}

/// An engine that takes nothing gives the same each time.
std::string why_no_gain(const partition::Segment& segment) {
  return segment.inputs.empty() ? "it depends on constants alone" : "";
}

/// What conversion found out about values that the framework tells less of.
void complete_types(ForeignGraph& foreign, const frontend::Converted& converted) {
  for (size_t v = 0; v < foreign.values.size(); ++v) {
    if (converted.values[v] == kNoValue) continue;
    const Value& known = converted.graph.value(converted.values[v]);
    if (foreign.values[v].type == DType::kUndefined) foreign.values[v].type = known.type;
    if (known.shape) foreign.values[v].shape = known.shape;
  }
  for (const auto& [v, parts] : converted.complexes) {
    const Value& real = converted.graph.value(parts.real);
    foreign.values[v].type = real.type == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64;
    if (real.shape) foreign.values[v].shape = real.shape;
  }
}

/// The front end's with those of users, or these with the caller's definitions.
std::shared_ptr<const frontend::Converters> rows_of(const HostGraph& graph, const PartitionChoices& choices) {
  auto rows = find_converters(graph.frontend, choices.converters);
  return choices.operators.empty() ? rows : with_definitions(*rows, choices.operators);
}

}  // namespace

std::shared_ptr<const frontend::Converters> find_converters(std::string_view frontend,
                                                            const std::vector<std::string>& libraries) {
  struct FrontEnd {
    std::string_view name;
    const frontend::Converters& (*converters)();
  };
  static constexpr FrontEnd kFrontEnds[] = {{"aten", aten::converters}, {"mxnet", mxnet::converters},
                                           {"tensorflow", tensorflow::converters}};
  std::vector<std::string_view> names;
  for (const FrontEnd& each : kFrontEnds) {
    if (each.name == frontend) return frontend::with_user_rows(frontend, each.converters(), libraries);
    names.push_back(each.name);
  }
  throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is none of: {}", frontend, fmt::join(names, ", ")),
              "frontend");
}

bool is_partition_choice(std::string_view key) {
  return std::find(std::begin(kPartitionChoices), std::end(kPartitionChoices), key) != std::end(kPartitionChoices);
}

void set_choice(PartitionChoices& choices, OptionText choice) {
  const std::string value(choice.value);
  if (choice.key == "minimum-size") {
    choices.minimum_size = number(choice);
  } else if (choice.key == "most-segments") {
    choices.most_segments = number(choice);
  } else if (choice.key == "minimum-gain") {
    choices.minimum_gain_us = number(choice);
  } else if (choice.key == "join") {
    GRAFT_USER_CHECK(value == "true" || value == "false", kInvalidArgument,
                     fmt::format("'{}' is neither true nor false", value), "join");
    choices.join_independent = value == "true";
  } else if (choice.key == "exclude-op") {
    choices.excluded_ops.push_back(value);
  } else if (choice.key == "exclude") {
    choices.excluded.push_back(value);
  } else if (choice.key == "only") {
    choices.only.push_back(value);
  } else if (choice.key == "converters") {
    choices.converters.push_back(value);
  } else if (choice.key == "ops") {
    choices.operators.push_back(value);
  } else {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("there is no such option; there are {}", fmt::join(kPartitionChoices, ", ")),
                std::string(choice.key));
  }
}

namespace {

/// Segments of a graph whose choices are checked.
HostPartition divide(const HostGraph& graph, const PartitionChoices& choices,
                     const std::shared_ptr<const frontend::Converters>& rows) {
  HostPartition made{.foreign = graph.foreign, .ranges = graph.ranges, .converters = rows, .result = {}};
  const frontend::Converted converted = frontend::convert(graph.foreign, *rows);
  complete_types(made.foreign, converted);
  const std::vector<bool> used = used_values(graph.foreign);
  const auto why_not = [&](int node) {
    std::string reason = kept_by_choice(graph.foreign.nodes[node], choices);
    if (reason.empty()) reason = converted.reasons[node];
    return reason.empty() ? missing_result(graph.foreign, node, converted, used) : reason;
  };
  made.result = partition::partition(abstract(graph, made.foreign, rows->pairs_complex()),
                                     {.why_not = why_not,
                                      .minimum_size = choices.minimum_size,
                                      .most_segments = choices.most_segments,
                                      .minimum_gain_us = choices.minimum_gain_us,
                                      .why_no_gain = why_no_gain,
                                      .join_independent = choices.join_independent});
  for (const auto& [place, body] : graph.bodies) {
    const auto given = converted.given_to_bodies.find(place);
    if (made.result.segment_of[place.first] >= 0 || given == converted.given_to_bodies.end()) continue;
    HostGraph inner = *body;
    if (inner.foreign.inputs.size() != given->second.size()) continue;
    const ForeignGraph& function = *graph.foreign.nodes[place.first].bodies.at(place.second);
    inner.foreign = frontend::with_given(function, given->second);
    inner.ranges = graph.ranges;
    made.bodies[place] = std::make_shared<HostPartition>(divide(inner, choices, rows));
  }
  return made;
}

}  // namespace

HostPartition partition_host_graph(const HostGraph& graph, const PartitionChoices& choices) {
  check_choices(graph.foreign, choices);
  HostGraph kept = graph;
  kept.foreign = with_choices(graph.foreign, choices);
  return divide(kept, choices, rows_of(graph, choices));
}

namespace {

/// The range of a size that grows with its symbols, where these have one.
std::optional<Graph::Range> range_of(const Size& size,
                                     const std::map<std::string, Graph::Range, std::less<>>& ranges) {
  std::set<std::string, std::less<>> symbols;
  size.collect_symbols(symbols);
  Bindings least, usual, most;
  bool bounded = true;
  for (const std::string& symbol : symbols) {
    const auto range = ranges.find(symbol);
    if (range == ranges.end()) return std::nullopt;
    least[symbol] = range->second.min, usual[symbol] = range->second.opt, most[symbol] = range->second.max;
    bounded = bounded && range->second.max > 0;
  }
  Graph::Range made;
  try {
    made = {size.evaluate(least), size.evaluate(usual), bounded ? size.evaluate(most) : 0};
  } catch (const Error&) {  // beyond what numbers hold
    return std::nullopt;
  }
  const bool grows = made.min >= 0 && made.min <= made.opt && (!bounded || made.opt <= made.max);
  return grows ? std::optional(made) : std::nullopt;
}

}  // namespace

Graph segment_graph(const HostPartition& partition, size_t segment, const CompileOptions& options) {
  const bool sizes = !options.dims.empty() || !options.shapes.empty() || !options.min_shapes.empty() ||
                     !options.opt_shapes.empty() || !options.max_shapes.empty();
  GRAFT_USER_CHECK(!sizes, kInvalidArgument, "the graph states sizes and their ranges", "options");
  GRAFT_USER_CHECK(options.operators.empty(), kInvalidArgument,
                   "definitions are a choice of the partition: which nodes become engines depends on them", "ops");
  GRAFT_USER_CHECK(options.converters.empty(), kInvalidArgument, "converters join when the graph is divided",
                   "converters");
  const partition::Segment& part = partition.result.segments.at(segment);
  frontend::Converted converted = frontend::convert(partition.foreign, part.nodes, part.inputs, part.outputs,
                                                    *partition.converters);
  for (const int node : part.nodes) {
    const std::string& reason = converted.reasons[node];
    // Of the whole graph it could be: an input of the segment is stated to have another type than what makes it gives.
    GRAFT_USER_CHECK(reason.empty(), kInvalidModel, "the graph's types contradict each other: " + reason,
                     fmt::format("node '{}'", partition.foreign.nodes[node].name));
  }
  converted.graph.name = fmt::format("{}_segment_{}", partition.foreign.name, segment);
  const auto symbols = input_symbols(converted.graph);
  CompileOptions ranges;
  for (const auto& [symbol, range] : partition.ranges) {
    if (symbols.contains(symbol)) ranges.dims[symbol] = range;
  }
  for (const auto& [symbol, size] : converted.renamed) {
    if (const auto range = range_of(size, partition.ranges)) ranges.dims[symbol] = *range;
  }
  apply_shape_choices(converted.graph, ranges);
  return std::move(converted.graph);
}

namespace {

std::string indented(const std::string& text) {
  std::string made;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    made += "  " + text.substr(at, end - at);
    at = end;
  }
  return made;
}

}  // namespace

std::string report(const HostPartition& partition) {
  const auto names = [&](const std::vector<int>& values) {
    std::vector<std::string> list;
    for (const int value : values) list.push_back(partition.foreign.values[value].name);
    return fmt::format("{}", fmt::join(list, ", "));
  };
  std::string text;
  for (size_t s = 0; s < partition.result.segments.size(); ++s) {
    const partition::Segment& segment = partition.result.segments[s];
    text += fmt::format("segment {}: {} operators, {} -> {}, {} bytes cross, {} about {:.0f} us a run by estimate\n", s,
                        segment.size, names(segment.inputs), names(segment.outputs), segment.border_bytes,
                        segment.gain_us < 0 ? "loses" : "saves", std::abs(segment.gain_us));
    for (size_t i = 0; i < std::min(segment.nodes.size(), kListed); ++i) {
      const ForeignNode& node = partition.foreign.nodes[segment.nodes[i]];
      text += fmt::format("  {} {}\n", node.op, node.name);
    }
    if (segment.nodes.size() > kListed) text += fmt::format("  and {} more\n", segment.nodes.size() - kListed);
  }
  for (size_t n = 0; n < partition.foreign.nodes.size(); ++n) {
    const ForeignNode& node = partition.foreign.nodes[n];
    if (partition.result.segment_of[n] >= 0) continue;
    text += fmt::format("stays: {} {}: {}{}\n", node.op, node.name, partition.result.reasons[n],
                        node.source.empty() ? "" : " (" + node.source + ")");
    for (auto body = partition.bodies.lower_bound({static_cast<int>(n), ""});
         body != partition.bodies.end() && body->first.first == static_cast<int>(n); ++body) {
      text += indented(fmt::format("inside of {}, {}:\n{}", node.name, body->first.second, report(*body->second)));
    }
  }
  return text;
}

}  // namespace graft
