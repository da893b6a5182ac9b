// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <algorithm>
#include <queue>

#include <fmt/format.h>

#include "base/error.h"
#include "base/import_budget.h"

namespace graft {
namespace {

/// `base`, or `base_K` with a K that `taken` refuses not; few probes even when thousands share a base.
template <class Taken>
std::string first_free_name(std::string_view base, const Taken& taken) {
  if (std::string name(base); !taken(name)) return name;
  const auto numbered = [&](int64_t k) { return fmt::format("{}_{}", base, k); };
  int64_t high = 1;
  while (taken(numbered(high))) high *= 2;
  int64_t low = high / 2;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (taken(numbered(middle)) ? low : high) = middle;
  }
  return numbered(high);
}

/// Kahn's algorithm, taking the earliest ready node first so that an ordered graph stays as it is.
std::vector<int> topological_order(const std::vector<std::vector<int>>& successors) {
  std::vector<int> waiting(successors.size(), 0);
  for (const auto& list : successors) {
    for (const int next : list) ++waiting[next];
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i] == 0) ready.push(static_cast<int>(i));
  }
  std::vector<int> order;
  order.reserve(successors.size());
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int next : successors[order.back()]) {
      if (--waiting[next] == 0) ready.push(next);
    }
  }
  return order;
}

/// The names of a few nodes that no order contains, for the message about a cycle.
std::string describe_cycle(const std::vector<Node>& nodes, const std::vector<int>& order) {
  std::vector<bool> ordered(nodes.size(), false);
  for (const int index : order) ordered[index] = true;
  std::string text;
  int named = 0;
  for (size_t i = 0; i < nodes.size() && named < 5; ++i) {
    if (ordered[i]) continue;
    text += fmt::format("{}'{}'", named++ ? ", " : "", nodes[i].name);
  }
  return text;
}

}  // namespace

std::string Graph::unique_name(std::string_view base) {
  return first_free_name(base.empty() ? "value" : base,
                         [&](const std::string& name) { return by_name_.count(name) != 0; });
}

ValueId Graph::add_value(std::string_view value_name, DType type, std::optional<Shape> shape) {
  take_import(kImportedPartBytes + value_name.size(), "values of a graph");
  const ValueId id = static_cast<ValueId>(values.size());
  Value value;
  value.name = unique_name(value_name);
  value.type = type;
  value.shape = std::move(shape);
  by_name_[value.name] = id;
  values.push_back(std::move(value));
  return id;
}

ValueId Graph::add_constant(std::string_view value_name, TensorData data) {
  Shape shape(data.shape().begin(), data.shape().end());
  const ValueId id = add_value(value_name, data.type(), std::move(shape));
  values[id].constant = std::move(data);
  return id;
}

Node& Graph::add_node(Node node) {
  const std::string base = node.name.empty() ? node.op : node.name;
  take_import(kImportedPartBytes + base.size(), "nodes of a graph");
  node.name = first_free_name(base, [&](const std::string& candidate) { return node_names_.count(candidate) != 0; });
  const int index = static_cast<int>(nodes.size());
  node_names_[node.name] = index;
  for (const ValueId output : node.outputs) {
    if (output == kNoValue) continue;
    GRAFT_CHECK(output >= 0 && output < static_cast<int>(values.size()),
                fmt::format("node '{}' defines a value that does not exist", node.name));
    values[output].producer = index;
  }
  nodes.push_back(std::move(node));
  return nodes.back();
}

ValueId Graph::find_value(std::string_view value_name) const {
  const auto it = by_name_.find(value_name);
  return it == by_name_.end() ? kNoValue : it->second;
}

void Graph::rename_value(ValueId id, std::string_view value_name) {
  by_name_.erase(values[id].name);
  values[id].name = unique_name(value_name);
  by_name_[values[id].name] = id;
}

bool Graph::is_output(ValueId id) const { return std::find(outputs.begin(), outputs.end(), id) != outputs.end(); }

void Graph::replace_uses(ValueId from, ValueId to) {
  for (Node& node : nodes) std::replace(node.inputs.begin(), node.inputs.end(), from, to);
  std::replace(outputs.begin(), outputs.end(), from, to);
}

std::vector<std::vector<int>> Graph::consumers() const {
  std::vector<std::vector<int>> readers(values.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const ValueId input : nodes[n].inputs) {
      if (input == kNoValue) continue;
      std::vector<int>& list = readers[input];
      if (list.empty() || list.back() != static_cast<int>(n)) list.push_back(static_cast<int>(n));
    }
  }
  return readers;
}

void Graph::erase_nodes(const std::vector<bool>& erased) {
  GRAFT_CHECK(erased.size() == nodes.size(), "one mark per node is expected");
  size_t kept = 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const ValueId output : nodes[n].outputs) {
      // An output that another node has taken over keeps its new producer.
      if (output == kNoValue || values[output].producer != static_cast<int>(n)) continue;
      values[output].producer = erased[n] ? -1 : static_cast<int>(kept);
    }
    if (erased[n]) {
      node_names_.erase(nodes[n].name);
      continue;
    }
    if (kept != n) nodes[kept] = std::move(nodes[n]);
    ++kept;
  }
  nodes.resize(kept);
}

void Graph::sort_nodes() {
  for (Value& value : values) value.producer = -1;
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const ValueId output : nodes[n].outputs) {
      if (output != kNoValue) values[output].producer = static_cast<int>(n);
    }
  }
  std::vector<std::vector<int>> successors(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const ValueId input : nodes[n].inputs) {
      const int producer = input == kNoValue ? -1 : values[input].producer;
      if (producer >= 0) successors[producer].push_back(static_cast<int>(n));
    }
  }
  const std::vector<int> order = topological_order(successors);
  GRAFT_USER_CHECK(order.size() == nodes.size(), kInvalidModel,
                   fmt::format("the nodes {} wait for each other's results in a cycle; a graph "
                               "must have an order in which it can be computed",
                               describe_cycle(nodes, order)),
                   fmt::format("graph '{}'", name));
  std::vector<Node> sorted;
  sorted.reserve(nodes.size());
  for (const int index : order) {
    for (const ValueId output : nodes[index].outputs) {
      if (output != kNoValue) values[output].producer = static_cast<int>(sorted.size());
    }
    sorted.push_back(std::move(nodes[index]));
  }
  nodes = std::move(sorted);
}

void Graph::remove_unused_values() {
  std::vector<bool> used(values.size(), false);
  const auto mark = [&](const std::vector<ValueId>& ids) {
    for (const ValueId id : ids) {
      if (id != kNoValue) used[id] = true;
    }
  };
  mark(inputs);
  mark(outputs);
  for (const Node& node : nodes) {
    mark(node.inputs);
    mark(node.outputs);
  }
  std::vector<ValueId> renumbered(values.size(), kNoValue);
  size_t kept = 0;
  by_name_.clear();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!used[i]) continue;
    if (kept != i) values[kept] = std::move(values[i]);
    by_name_[values[kept].name] = static_cast<ValueId>(kept);
    renumbered[i] = static_cast<ValueId>(kept++);
  }
  values.resize(kept);
  const auto renumber = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) {
      if (id != kNoValue) id = renumbered[id];
    }
  };
  renumber(inputs);
  renumber(outputs);
  for (Node& node : nodes) {
    renumber(node.inputs);
    renumber(node.outputs);
  }
}

}  // namespace graft
