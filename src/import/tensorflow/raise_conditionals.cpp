// SPDX-License-Identifier: Apache-2.0
// Switches and Merges by one predicate -> If.
#include <algorithm>
#include <array>
#include <utility>

#include "import/tensorflow/control_flow_graph.h"

namespace graft::tensorflow {
namespace {

constexpr size_t kMostMerges = 1000;
constexpr unsigned kElse = 1, kThen = 2;  // sides, by what leads to them; bits

/// The Merges that one If replaces.
struct Group {
  Source predicate;
  std::vector<int> merges;
};

/// Which sides of a predicate lead to nodes, by data or as what has to run before.
class Sides {
 public:
  Sides(const ControlFlowGraph& graph, const Source& predicate) : graph_(graph), predicate_(predicate) {}

  /// Of a tensor.
  unsigned of(const Source& source) { return is_switch(source) ? side(source) : of(graph_.find(source.node)); }

  bool is_switch(const Source& source) const {
    const int n = graph_.find(source.node);
    if (graph_.node(n).op != "Switch") return false;
    const std::vector<Source> data = graph_.data_of(n);
    return data.size() == 2 && is_predicate(data[1]);
  }
  bool is_predicate(const Source& source) const {
    const Source chosen = graph_.behind_identities(source);
    return chosen.node == predicate_.node && chosen.index == predicate_.index;
  }

 private:
  static unsigned side(const Source& source) {
    return source.control ? 0 : source.index == 1 ? kThen : kElse;
  }

  unsigned of(int n) {
    const auto known = sides_.find(n);
    if (known != sides_.end()) return known->second;
    std::vector<int> path = {n};
    sides_[n] = 0;
    while (!path.empty()) {  // what is upstream first
      const int at = path.back();
      unsigned made = 0;
      int open = -1;
      for (const Source& source : graph_.node(at).inputs) {
        const int from = graph_.find(source.node);
        if (graph_.node(from).op == "NextIteration") continue;
        if (is_switch(source)) {
          made |= side(source);
        } else if (const auto found = sides_.find(from); found != sides_.end()) {
          made |= found->second;
        } else {
          open = from;
          break;
        }
      }
      if (open >= 0) {
        sides_[open] = 0;
        path.push_back(open);
        continue;
      }
      sides_[at] = made;
      path.pop_back();
    }
    return sides_[n];
  }

  const ControlFlowGraph& graph_;
  const Source predicate_;
  std::map<int, unsigned> sides_;
};

/// A conditional on its way.
class Conditional {
 public:
  Conditional(ControlFlowGraph& graph, const Group& group)
      : graph_(graph), group_(group), sides_(graph, group.predicate) {}

  bool raise() {
    std::array<std::vector<Source>, 2> results;  // else, then
    for (const int merge : group_.merges) {
      const std::vector<Source> data = graph_.data_of(merge);
      const int then = place_of_then(data);
      if (then < 0) return false;
      results[1].push_back(data[static_cast<size_t>(then)]), results[0].push_back(data[static_cast<size_t>(1 - then)]);
    }
    ControlFlowGraph::Arguments sources;  // by the tensors that the If takes
    std::array<ControlFlowGraph::Arguments, 2> arguments;
    std::array<std::set<int>, 2> inside;
    for (const size_t side : {0, 1}) {
      if (!collect(results[side], static_cast<int>(side), sources, arguments[side], inside[side])) return false;
    }
    const std::set<int> old = what_goes(inside[0], inside[1]);
    if (old.empty()) return false;
    const std::string name = graph_.node(group_.merges[0]).name;
    std::array<std::string, 2> functions;
    for (const size_t side : {0, 1}) {
      functions[side] = graph_.add_function(name + (side == 1 ? "/then" : "/else"), inside[side], arguments[side],
                                            sources.size(), results[side]);
    }
    put_in_place(name, functions, sources, old);
    return true;
  }

 private:
  /// Which input of a Merge is that of the side `then`; -1: it is not clear.
  int place_of_then(const std::vector<Source>& data) {
    const unsigned first = sides_.of(data[0]), second = sides_.of(data[1]);
    if (first == kThen && (second == kElse || second == 0)) return 0;
    if (first == kElse && (second == kThen || second == 0)) return 1;
    if (first == 0 && second == kThen) return 1;
    return first == 0 && second == kElse ? 0 : -1;
  }

  /// A branch. `sources`: what the If takes, each once for both branches; `arguments`: the branch's names for these.
  bool collect(const std::vector<Source>& results, int side, ControlFlowGraph::Arguments& sources,
               ControlFlowGraph::Arguments& arguments, std::set<int>& inside) {
    const auto way = [&](const Source& source) {
      const bool switched = sides_.is_switch(source);
      if (!switched && sides_.of(source) != 0) return ControlFlowGraph::Way::kInside;
      if (switched && source.index != side) return ControlFlowGraph::Way::kOutside;
      return ControlFlowGraph::Way::kArgument;
    };
    if (!graph_.collect(results, arguments, way, inside)) return false;
    for (auto& [tensor, number] : arguments) {
      const Source source = parse_source(tensor, "conditional");
      const Source given = sides_.is_switch(source) ? graph_.data_of(graph_.find(source.node))[0] : source;
      const auto place = static_cast<int>(sources.size());
      number = sources.emplace(spell(given.node, given.index), place).first->second;
    }
    return true;
  }

  /// The nodes of both branches, the Merges, and the Switches and what hands the predicate on: without those that
  /// somebody else takes, too.
  std::set<int> what_goes(const std::set<int>& one, const std::set<int>& other) {
    std::set<int> old(group_.merges.begin(), group_.merges.end());
    const std::set<int> merges = old;
    for (const std::set<int>* inside : {&one, &other}) old.insert(inside->begin(), inside->end());
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      const FileNode& node = graph_.nodes()[n];
      if (sides_.is_switch({.node = node.name})) old.insert(static_cast<int>(n));
      if (node.op != "Identity" || node.inputs.empty()) continue;
      if (sides_.is_switch(node.inputs[0]) || sides_.is_predicate({.node = node.name})) {
        old.insert(static_cast<int>(n));
      }
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (auto n = old.begin(); n != old.end();) {
        const auto& takers = graph_.takers(*n);
        const bool stays = !merges.contains(*n) && std::any_of(takers.begin(), takers.end(), [&](int taker) {
          return !old.contains(taker);
        });
        changed = changed || stays;
        n = stays ? old.erase(n) : std::next(n);
      }
    }
    return old;
  }

  void put_in_place(const std::string& name, const std::array<std::string, 2>& functions,
                    const ControlFlowGraph::Arguments& sources, const std::set<int>& old) {
    auto message = std::make_shared<graft_tensorflow::NodeDef>();
    FileNode made{.name = name, .op = "If", .device = {}, .inputs = {group_.predicate}, .message = nullptr,
                  .bytes = {}};
    std::vector<std::string> tensors(sources.size());
    for (const auto& [tensor, number] : sources) tensors[static_cast<size_t>(number)] = tensor;
    new_attribute(*message, "Tcond").set_type(kBool);
    auto& taken = *new_attribute(*message, "Tin").mutable_list();
    for (const std::string& tensor : tensors) {
      made.inputs.push_back(parse_source(tensor, "conditional"));
      taken.add_type(0);  // whoever makes it says so
    }
    auto& given = *new_attribute(*message, "Tout").mutable_list();
    std::vector<Source> results;
    for (const int merge : group_.merges) {
      given.add_type(graph_.type_of(merge));
      results.push_back({.node = graph_.node(merge).name});
    }
    new_attribute(*message, "then_branch").mutable_func()->set_name(functions[1]);
    new_attribute(*message, "else_branch").mutable_func()->set_name(functions[0]);
    made.message = std::move(message);
    graph_.replace(old, std::move(made), results);
  }

  static constexpr int kBool = 10;  // in DataType
  ControlFlowGraph& graph_;
  const Group& group_;
  Sides sides_;
};

/// The predicate of the nearest Switch that leads to a Merge; nothing where it is a loop's.
std::optional<Source> predicate_of(const ControlFlowGraph& graph, int merge) {
  std::vector<int> queue = {merge};
  std::set<int> seen = {merge};
  for (size_t next = 0; next < queue.size(); ++next) {
    for (const Source& source : graph.node(queue[next]).inputs) {
      const int from = graph.find(source.node);
      const std::string& op = graph.node(from).op;
      if (op == "NextIteration" || !seen.insert(from).second) continue;
      const std::vector<Source> data = graph.data_of(from);
      if (op == "Switch" && data.size() == 2) {
        const Source predicate = graph.behind_identities(data[1]);
        if (graph.node(graph.find(predicate.node)).op == "LoopCond") continue;
        return predicate;
      }
      if (op != "Merge") queue.push_back(from);
    }
  }
  return std::nullopt;
}

/// Whether a node depends on one of others.
bool depends_on(const ControlFlowGraph& graph, int n, const std::set<int>& others) {
  std::vector<int> queue = {n};
  std::set<int> seen = {n};
  while (!queue.empty()) {
    const int at = queue.back();
    queue.pop_back();
    for (const Source& source : graph.node(at).inputs) {
      const int from = graph.find(source.node);
      if (others.contains(from)) return true;
      if (graph.node(from).op != "NextIteration" && seen.insert(from).second) queue.push_back(from);
    }
  }
  return false;
}

}  // namespace

int raise_conditionals(ControlFlowGraph& graph) {
  std::map<std::string, Group> groups;
  std::set<int> merges;
  for (size_t at = 0; at < graph.nodes().size(); ++at) {
    const int n = static_cast<int>(at);
    const FileNode& node = graph.nodes()[at];
    const std::vector<Source> data = graph.data_of(n);
    if (node.op != "Merge" || data.size() != 2) continue;
    const bool of_loop = std::any_of(data.begin(), data.end(), [&](const Source& source) {
      return graph.node(graph.find(source.node)).op == "NextIteration";
    });
    if (!of_loop) merges.insert(n);
  }
  if (merges.size() > kMostMerges) return 0;
  for (const int n : merges) {
    const auto predicate = predicate_of(graph, n);
    if (!predicate || depends_on(graph, n, merges)) continue;  // those before it come first
    Group& group = groups[spell(predicate->node, predicate->index)];
    group.predicate = *predicate;
    group.merges.push_back(n);
  }
  int raised = 0;
  for (const auto& [predicate, group] : groups) raised += Conditional(graph, group).raise() ? 1 : 0;
  return raised;
}

}  // namespace graft::tensorflow
