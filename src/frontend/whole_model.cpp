// SPDX-License-Identifier: Apache-2.0
#include "frontend/whole_model.h"

#include <algorithm>
#include <set>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "graph/output_name.h"

namespace graft::frontend {
namespace {

constexpr size_t kMostReasons = 5;

/// A value under the caller's name; what has it inside of the graph gives it up.
void give_name(Graph& graph, ValueId value, const std::string& name, std::set<ValueId>& named) {
  const ValueId taken = graph.find_value(name);
  if (taken != value) {
    if (taken != kNoValue && !named.contains(taken)) graph.rename_value(taken, name + "_inside");
    graph.rename_value(value, name);
  }
  named.insert(value);
}

}  // namespace

void check_converted(const ForeignGraph& foreign, const Converted& converted, const std::string& remedy) {
  std::vector<std::string> reasons;
  for (size_t n = 0; n < foreign.nodes.size(); ++n) {
    if (converted.reasons[n].empty()) continue;
    const ForeignNode& node = foreign.nodes[n];
    const std::string source = node.source.empty() ? "" : fmt::format(" ({})", node.source);
    reasons.push_back(fmt::format("{} '{}'{}: {}", node.op, node.name, source, converted.reasons[n]));
  }
  if (reasons.empty()) return;
  const size_t listed = std::min(reasons.size(), kMostReasons);
  const std::string more = reasons.size() > listed ? fmt::format("; and {} more", reasons.size() - listed) : "";
  throw Error(ErrorKind::kUnsupported,
              fmt::format("operators of the model cannot be converted: {}{}; {}",
                          fmt::join(std::span(reasons).first(listed), "; "), more, remedy),
              "model");
}

void check_outputs(const ForeignGraph& foreign, const Converted& converted) {
  for (const int output : foreign.outputs) {
    const std::string& name = foreign.values[static_cast<size_t>(output)].name;
    GRAFT_USER_CHECK(converted.values[static_cast<size_t>(output)] != kNoValue, kInvalidArgument,
                     fmt::format("'{}' is no result of its node, which gives fewer; choose another output", name),
                     "outputs");
  }
}

void name_borders(Graph& graph, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  GRAFT_CHECK(graph.inputs.size() == inputs.size() && graph.outputs.size() == outputs.size(),
              "an input or output was lost");
  std::set<ValueId> named;
  for (size_t i = 0; i < inputs.size(); ++i) give_name(graph, graph.inputs[i], inputs[i], named);
  for (size_t i = 0; i < outputs.size(); ++i) {
    ValueId& value = graph.outputs[i];
    if (graph.value(value).constant || named.contains(value)) {
      const Value source = graph.value(value);
      const ValueId made = graph.add_value(outputs[i], source.type, source.shape);
      graph.add_node({.name = outputs[i], .domain = "", .op = "Identity", .attributes = {},
                      .inputs = {value}, .outputs = {made}});
      value = made;
    }
    give_name(graph, value, outputs[i], named);
    if (graph.value(value).name != outputs[i]) set_output_name(graph, value, outputs[i]);
  }
}

}  // namespace graft::frontend
