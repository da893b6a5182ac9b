// SPDX-License-Identifier: Apache-2.0
#include "export/mxnet/mixed_precision.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "amp/mixed_precision.h"
#include "amp/narrowing.h"
#include "base/error.h"
#include "export/mxnet/symbol_view.h"
#include "import/mxnet/precision_lists.h"
#include "import/mxnet/symbol_facts.h"

namespace graft::mxnet {
namespace {

/// Nodes in the order in which MXNet writes them: those that a head needs, inputs first, depth first.
class Ordering {
 public:
  explicit Ordering(Symbol& symbol) : symbol_(symbol), place_(symbol.nodes.size(), -1) {}

  void run() {
    for (const SymbolEntry& head : symbol_.heads) visit(head.node);
    for (SymbolNode& node : ordered_) {
      for (SymbolEntry& input : node.inputs) input.node = place_[input.node];
      for (int& before : node.after) before = place_[before];
    }
    for (SymbolEntry& head : symbol_.heads) head.node = place_[head.node];
    symbol_.nodes = std::move(ordered_);
  }

 private:
  void visit(int first) {
    struct Visit {
      int node;
      size_t next = 0;
    };
    std::vector<Visit> stack;
    const auto enter = [&](int node) {
      if (!entered_.insert(node).second) return;
      stack.push_back({node});
    };
    enter(first);
    while (!stack.empty()) {
      Visit& visit = stack.back();
      const SymbolNode& node = symbol_.nodes[visit.node];
      const size_t next = visit.next++;
      if (next < node.inputs.size()) {
        enter(node.inputs[next].node);
      } else if (next < node.inputs.size() + node.after.size()) {
        enter(node.after[next - node.inputs.size()]);
      } else {
        place_[visit.node] = static_cast<int>(ordered_.size());
        ordered_.push_back(node);
        stack.pop_back();
      }
    }
  }

  Symbol& symbol_;
  std::vector<int> place_;  ///< by node: its new index
  std::set<int> entered_;
  std::vector<SymbolNode> ordered_;
};

/// Puts the casts of a decision into a copy of the symbol.
class Applying {
 public:
  Applying(const Symbol& symbol, const SymbolView& view, const amp::Decision& decision)
      : view_(view), decision_(decision), cast_nodes_(decision.casts.size(), -1) {
    result_.symbol = symbol;
    for (const SymbolNode& node : symbol.nodes) names_.insert(node.name);
  }

  MixedSymbol run() {
    for (size_t i = 0; i < view_.nodes.size(); ++i) rewire(i);
    for (size_t i = 0; i < decision_.outputs.size(); ++i) {
      take(result_.symbol.heads[i], view_.graph.outputs[i], decision_.outputs[i]);
    }
    for (size_t id = 0; id < view_.entries.size(); ++id) {
      const int index = view_.entries[id].node;
      if (!view_.is_parameter[index]) continue;
      SymbolNode& node = result_.symbol.nodes[index];
      node.attributes["__dtype__"] = std::to_string(type_code(decision_.types[id]));
      result_.parameter_types[node.name] = decision_.types[id];
    }
    Ordering(result_.symbol).run();
    return std::move(result_);
  }

 private:
  void rewire(size_t index) {
    const int to = view_.nodes[index];
    std::vector<SymbolEntry> inputs = result_.symbol.nodes[to].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      take(inputs[i], view_.graph.nodes[index].inputs[i], decision_.readings[index][i]);
    }
    const std::vector<int>& widened = decision_.multicasts[index];
    if (!widened.empty()) {
      const int count = static_cast<int>(widened.size());
      SymbolNode node{.op = "amp_multicast", .name = result_.symbol.nodes[to].name + "_amp_multicast"};
      node.attributes = {{"num_outputs", std::to_string(count)}};
      node.output_count = count;
      for (const int input : widened) node.inputs.push_back(inputs[input]);
      const int multicast = add(std::move(node));
      for (int k = 0; k < count; ++k) inputs[widened[k]] = {multicast, k};
      ++result_.multicasts;
    }
    result_.symbol.nodes[to].inputs = std::move(inputs);
  }

  /// What reads `value` reads this instead; what reads it as it is keeps its version.
  void take(SymbolEntry& entry, int value, const amp::Reading& reading) {
    if (reading.cast >= 0) {
      entry = {cast_node(reading.cast, entry), 0};
    } else if (reading.value != value) {
      entry = view_.entries[reading.value];
    }
  }

  int cast_node(int cast, const SymbolEntry& first) {
    if (cast_nodes_[cast] >= 0) return cast_nodes_[cast];
    const auto& [value, type] = decision_.casts[cast];
    SymbolEntry from = view_.entries[value];
    if (from.node == first.node && from.output == first.output) from.version = first.version;
    const SymbolNode& source = result_.symbol.nodes[from.node];
    SymbolNode node{.op = "amp_cast", .name = output_name(source, from.output)};
    node.name += fmt::format("_amp_cast_{}", type_name(type));
    node.attributes = {{"dtype", std::string(type_name(type))}};
    node.inputs = {from};
    node.output_count = 1;
    ++result_.casts;
    return cast_nodes_[cast] = add(std::move(node));
  }

  int add(SymbolNode node) {
    const std::string wanted = node.name;
    int& next = next_suffix_.try_emplace(wanted, 1).first->second;
    while (!names_.insert(node.name).second) node.name = fmt::format("{}_{}", wanted, next++);
    result_.symbol.nodes.push_back(std::move(node));
    return static_cast<int>(result_.symbol.nodes.size()) - 1;
  }

  const SymbolView& view_;
  const amp::Decision& decision_;
  std::vector<int> cast_nodes_;  ///< by cast: its node
  std::set<std::string> names_;
  std::map<std::string, int> next_suffix_;  ///< by name: what to try next behind it
  MixedSymbol result_;
};

}  // namespace

MixedSymbol convert_symbol(const Symbol& symbol, const amp::Request& request, const Parameters* parameters) {
  const SymbolView view = view_symbol(symbol, request, parameters);
  const amp::Rules rules(default_lists(request.low), request.lists, view.graph);
  amp::Options options{.low = request.low, .convert_parameters = request.convert_parameters};
  if (parameters) {
    options.why_not = [&](int value) {
      const auto array = parameters->find(view.graph.values[value].name);
      return array == parameters->end() || !array->second ? "" : amp::conversion_fault(array->second, request.low);
    };
  }
  return Applying(symbol, view, amp::decide(view.graph, rules, options)).run();
}

void convert_parameters(ParamsFile& file, const std::map<std::string, DType>& types) {
  for (ParamsEntry& entry : file.entries) {
    const auto type = types.find(std::string(entry.plain_name()));
    if (type == types.end() || !entry.data || entry.data.type() == type->second) continue;
    if (!entry.sparse) {
      entry.data = amp::converted(entry.data, type->second);
      continue;
    }
    entry.sparse->data = amp::converted(entry.sparse->data, type->second);
    entry.data = dense(*entry.sparse, entry.data.shape());
  }
}

}  // namespace graft::mxnet
