// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/control_flow_graph.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace graft::tensorflow {
namespace {

using graft_tensorflow::NodeDef;

/// What has to be raised before it can be in a function.
bool is_control_flow(std::string_view op) {
  if (op.starts_with("Ref")) op.remove_prefix(3);
  return op == "Switch" || op == "Merge" || op == "Enter" || op == "Exit" || op == "NextIteration" || op == "LoopCond";
}

}  // namespace

graft_tensorflow::AttrValue& new_attribute(NodeDef& node, const char* key) {
  auto& entry = *node.add_attr();
  entry.set_key(key);
  return *entry.mutable_value();
}

ControlFlowGraph::ControlFlowGraph(const GraphFile& file)
    : nodes_(file.nodes()), stands_for_(file.nodes().size()), functions_(file.made_functions()), file_(file) {
  for (size_t n = 0; n < nodes_.size(); ++n) {
    by_name_.emplace(nodes_[n].name, static_cast<int>(n));
    stands_for_[n] = {static_cast<int>(n)};
  }
  refresh();
}

int ControlFlowGraph::find(const std::string& name) const { return by_name_.find(name)->second; }

void ControlFlowGraph::refresh() {
  takers_.assign(nodes_.size(), {});
  for (size_t n = 0; n < nodes_.size(); ++n) {
    for (const Source& source : nodes_[n].inputs) {
      takers_[static_cast<size_t>(find(source.node))].push_back(static_cast<int>(n));
    }
  }
}

std::vector<Source> ControlFlowGraph::data_of(int n) const {
  std::vector<Source> data;
  std::copy_if(node(n).inputs.begin(), node(n).inputs.end(), std::back_inserter(data),
               [](const Source& source) { return !source.control; });
  return data;
}

int ControlFlowGraph::type_of(int n, const char* attribute) const {
  const auto* type = node(n).attribute(attribute);
  return type ? type->type() : 0;
}

Source ControlFlowGraph::behind_identities(Source source) const {
  for (size_t steps = 0; steps < nodes_.size(); ++steps) {
    const int n = find(source.node);
    if (node(n).op != "Identity" || source.index != 0) return source;
    const std::vector<Source> data = data_of(n);
    if (data.size() != 1) return source;
    source = data[0];
  }
  return source;
}

bool ControlFlowGraph::collect(const std::vector<Source>& results, Arguments& arguments,
                               const std::function<Way(const Source&)>& way, std::set<int>& inside) const {
  std::vector<Source> queue = results;
  while (!queue.empty()) {
    const Source source = queue.back();
    queue.pop_back();
    const std::string tensor = spell(source.node, source.index);
    const int n = find(source.node);
    if (arguments.contains(tensor) || inside.contains(n)) continue;
    const Way found = node(n).op == "Const" ? Way::kInside : way(source);
    if (found == Way::kArgument) arguments.emplace(tensor, static_cast<int>(arguments.size()));
    if (found == Way::kArgument) continue;
    if (found == Way::kOutside || is_control_flow(node(n).op) || node(n).op == "Placeholder") return false;
    inside.insert(n);
    for (Source& each : data_of(n)) queue.push_back(std::move(each));
  }
  return true;
}

std::string ControlFlowGraph::add_function(const std::string& name, const std::set<int>& inside,
                                           const Arguments& arguments, size_t argument_count,
                                           const std::vector<Source>& results) {
  std::string function = name;
  for (int number = 1; functions_.contains(function) || file_.has_function(function); ++number) {
    function = fmt::format("{}_{}", name, number);
  }
  std::vector<std::string> inputs(argument_count), outputs;
  std::vector<FileNode> made;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (int number = 0; inputs[i].empty() || by_name_.contains(inputs[i]); ++number) {
      inputs[i] = fmt::format("{}/argument_{}{}", function, i, std::string(static_cast<size_t>(number), '_'));
    }
    made.push_back({.name = inputs[i], .op = "Placeholder", .device = {}, .inputs = {},
                    .message = std::make_shared<NodeDef>(), .bytes = {}});
  }
  const auto now = [&](const Source& source) -> Source {
    const auto given = arguments.find(spell(source.node, source.index));
    return given == arguments.end() ? source : Source{.node = inputs[static_cast<size_t>(given->second)]};
  };
  for (const int n : inside) {
    made.push_back(node(n));
    made.back().inputs.clear();
    for (const Source& source : data_of(n)) made.back().inputs.push_back(now(source));
  }
  for (const Source& result : results) {
    const Source source = now(result);
    outputs.push_back(spell(source.node, source.index));
  }
  functions_[function] = std::make_shared<const FunctionGraph>(
      FunctionGraph{GraphFile(std::move(made), file_, functions_), std::move(inputs), std::move(outputs)});
  return function;
}

void ControlFlowGraph::replace(const std::set<int>& old, FileNode made, const std::vector<Source>& results) {
  const auto place = static_cast<size_t>(find(made.name));
  std::map<std::string, int> number;
  for (size_t i = 0; i < results.size(); ++i) number[spell(results[i].node, results[i].index)] = static_cast<int>(i);
  std::set<std::string> before;
  std::vector<int> work;
  for (const int n : old) {
    const auto at = static_cast<size_t>(n);
    work.insert(work.end(), stands_for_[at].begin(), stands_for_[at].end());
    for (const Source& source : nodes_[at].inputs) {
      if (source.control && !old.contains(find(source.node))) before.insert(source.node);
    }
  }
  std::set<int> users;
  for (const int n : old) users.insert(takers(n).begin(), takers(n).end());
  for (const int n : users) {
    if (old.contains(n)) continue;
    for (Source& source : nodes_[static_cast<size_t>(n)].inputs) {
      if (!old.contains(find(source.node))) continue;
      const auto found = number.find(spell(source.node, source.index));
      source = {.node = made.name, .index = source.control || found == number.end() ? 0 : found->second,
                .control = source.control};
    }
  }
  for (const int n : old) {
    FileNode& gone = nodes_[static_cast<size_t>(n)];
    gone.op = "NoOp", gone.inputs.clear(), gone.message = std::make_shared<NodeDef>();
    stands_for_[static_cast<size_t>(n)].clear();
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string then = spell(results[i].node, results[i].index);
    const auto known = tensors_.find(then);
    moved_[known == tensors_.end() ? then : known->second] = {.node = made.name, .index = static_cast<int>(i)};
    tensors_[spell(made.name, static_cast<int>(i))] = known == tensors_.end() ? then : known->second;
  }
  for (const std::string& each : before) made.inputs.push_back({.node = each, .index = 0, .control = true});
  std::sort(work.begin(), work.end());
  stands_for_[place] = std::move(work);
  nodes_[place] = std::move(made);
  refresh();
}

RaisedGraph ControlFlowGraph::finish(const GraphFile& file) && {
  return {GraphFile(std::move(nodes_), file, std::move(functions_)), std::move(stands_for_), std::move(tensors_),
          std::move(moved_)};
}

Source RaisedGraph::now(const Source& source) const {
  const auto found = moved.find(spell(source.node, source.index));
  return found == moved.end() || source.control ? source : found->second;
}

const std::string& RaisedGraph::before(const std::string& tensor) const {
  const auto found = tensors.find(tensor);
  return found == tensors.end() ? tensor : found->second;
}

std::optional<RaisedGraph> raise_control_flow(const GraphFile& file, bool drops_checks) {
  const auto& nodes = file.nodes();
  const bool any = std::any_of(nodes.begin(), nodes.end(), [](const FileNode& node) {
    return node.op == "Merge" || node.op == "RefMerge";
  });
  if (!any) return std::nullopt;
  ControlFlowGraph graph(file);
  int raised = 0;
  while (const int more = raise_conditionals(graph) + raise_loops(graph, drops_checks)) raised += more;
  if (raised == 0) return std::nullopt;
  return std::move(graph).finish(file);
}

}  // namespace graft::tensorflow
