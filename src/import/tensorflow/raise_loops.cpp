// SPDX-License-Identifier: Apache-2.0
// Enter, Merge, Switch, NextIteration and Exit of a frame -> While.
#include <algorithm>
#include <utility>

#include "import/tensorflow/control_flow_graph.h"

namespace graft::tensorflow {
namespace {

constexpr size_t kMostLoops = 1000;

/// What the rounds hand on: its nodes, and what the next round gets.
struct Variable {
  int enter = -1, merge = -1, switched = -1, next = -1, exit = -1;
};

/// A loop on its way.
class Loop {
 public:
  Loop(ControlFlowGraph& graph, const std::vector<int>& enters, bool drops_checks)
      : graph_(graph), drops_checks_(drops_checks) {
    for (const int enter : enters) {
      const auto* constant = graph.node(enter).attribute("is_constant");
      (constant && constant->b() ? invariants_ : enters_).push_back(enter);
    }
  }

  bool raise() {
    if (!find_variables() || !find_frame()) return false;
    ControlFlowGraph::Arguments tested, computed;
    for (const Variable& each : variables_) {
      const int number = static_cast<int>(tested.size());
      tested[graph_.node(each.merge).name] = number;
      computed[spell(graph_.node(each.switched).name, 1)] = number;
    }
    for (const int enter : invariants_) {
      const int number = static_cast<int>(tested.size());
      tested[graph_.node(enter).name] = computed[graph_.node(enter).name] = number;
    }
    std::vector<Source> next;
    for (const Variable& each : variables_) next.push_back(graph_.data_of(each.next)[0]);
    for (const int enter : invariants_) next.push_back({.node = graph_.node(enter).name});
    const std::vector<Source> holds = {graph_.data_of(condition_)[0]};
    std::set<int> test, body;
    if (!collect(holds, tested, test) || !collect(next, computed, body) || !all_is_known(test, body)) return false;
    const std::string name = graph_.node(condition_).name;
    const std::string cond = graph_.add_function(name + "/test", test, tested, tested.size(), holds);
    const std::string round = graph_.add_function(name + "/round", body, computed, computed.size(), next);
    put_in_place(name, cond, round);
    return true;
  }

 private:
  /// The only one among who takes a node's results that is of an operator; -1: there is none, or several.
  int only_taker(int n, std::string_view op) const {
    int found = -1;
    for (const int taker : graph_.takers(n)) {
      if (graph_.node(taker).op != op || taker == found) continue;
      if (found >= 0) return -1;
      found = taker;
    }
    return found;
  }

  bool find_variables() {
    for (const int enter : enters_) {
      Variable made{.enter = enter, .merge = only_taker(enter, "Merge")};
      if (made.merge < 0) return false;
      made.switched = only_taker(made.merge, "Switch");
      const std::vector<Source> merged = graph_.data_of(made.merge);
      if (made.switched < 0 || merged.size() != 2) return false;
      for (const Source& source : merged) {
        const int from = graph_.find(source.node);
        if (from != enter) made.next = from;
      }
      const std::vector<Source> switched = graph_.data_of(made.switched);
      if (made.next < 0 || graph_.node(made.next).op != "NextIteration" || switched.size() != 2) return false;
      if (switched[0].node != graph_.node(made.merge).name || switched[0].index != 0) return false;
      const int condition = graph_.find(switched[1].node);
      if (graph_.node(condition).op != "LoopCond" || (condition_ >= 0 && condition != condition_)) return false;
      condition_ = condition;
      if (graph_.data_of(made.next).size() != 1 || graph_.data_of(enter).size() != 1) return false;
      for (const int taker : graph_.takers(made.switched)) {
        if (graph_.node(taker).op != "Exit") continue;
        if (made.exit >= 0 || graph_.data_of(taker)[0].index != 0) return false;
        made.exit = taker;
      }
      variables_.push_back(made);
    }
    const auto has_input = [&](int enter) { return graph_.data_of(enter).size() == 1; };
    return condition_ >= 0 && graph_.data_of(condition_).size() == 1 &&
           std::all_of(invariants_.begin(), invariants_.end(), has_input);
  }

  /// All nodes that run in rounds, and those that lead in and out.
  bool find_frame() {
    std::vector<int> queue = enters_;
    queue.insert(queue.end(), invariants_.begin(), invariants_.end());
    frame_.insert(queue.begin(), queue.end());
    while (!queue.empty()) {
      const int n = queue.back();
      queue.pop_back();
      if (graph_.node(n).op == "Exit") continue;
      for (const int taker : graph_.takers(n)) {
        if (graph_.node(taker).op == "Enter" && !frame_.contains(taker)) return false;  // of a loop in this one
        if (frame_.insert(taker).second) queue.push_back(taker);
      }
    }
    return true;
  }

  bool collect(const std::vector<Source>& results, ControlFlowGraph::Arguments& arguments, std::set<int>& inside) {
    const auto way = [&](const Source& source) {
      return frame_.contains(graph_.find(source.node)) ? ControlFlowGraph::Way::kInside
                                                       : ControlFlowGraph::Way::kOutside;
    };
    return graph_.collect(results, arguments, way, inside);
  }

  /// Nothing runs in rounds but the functions' nodes, and what goes without a trace.
  bool all_is_known(const std::set<int>& test, const std::set<int>& body) const {
    std::set<int> known = {condition_};
    for (const Variable& each : variables_) {
      for (const int n : {each.enter, each.merge, each.switched, each.next, each.exit}) known.insert(n);
    }
    known.insert(invariants_.begin(), invariants_.end());
    return std::all_of(frame_.begin(), frame_.end(), [&](int n) {
      const std::string& op = graph_.node(n).op;
      const bool check = op == "Assert" || op == "Print" || op == "PrintV2";
      return known.contains(n) || test.contains(n) || body.contains(n) || op == "Const" || op == "NoOp" ||
             op == "Identity" || (drops_checks_ && check);
    });
  }

  /// A flow of an array is called a float, and becomes a list of anything.
  int type_given_to(int enter) const {
    const Source source = graph_.behind_identities(graph_.data_of(enter)[0]);
    const std::string& op = graph_.node(graph_.find(source.node)).op;
    return op.starts_with("TensorArray") || op == "While" || op == "If" ? 0 : graph_.type_of(enter);
  }

  void put_in_place(const std::string& name, const std::string& test, const std::string& round) {
    auto message = std::make_shared<graft_tensorflow::NodeDef>();
    FileNode loop{.name = name, .op = "While", .device = {}, .inputs = {}, .message = nullptr, .bytes = {}};
    std::vector<Source> results;
    auto& types = *new_attribute(*message, "T").mutable_list();
    for (const Variable& each : variables_) {
      loop.inputs.push_back(graph_.data_of(each.enter)[0]);
      types.add_type(type_given_to(each.enter));
      // One that nobody takes behind the loop has no Exit.
      results.push_back({.node = graph_.node(each.exit >= 0 ? each.exit : each.enter).name});
    }
    for (const int enter : invariants_) {
      loop.inputs.push_back(graph_.data_of(enter)[0]);
      types.add_type(type_given_to(enter));
    }
    new_attribute(*message, "cond").mutable_func()->set_name(test);
    new_attribute(*message, "body").mutable_func()->set_name(round);
    loop.message = std::move(message);
    graph_.replace(frame_, std::move(loop), results);
  }

  ControlFlowGraph& graph_;
  bool drops_checks_;
  std::vector<int> enters_, invariants_;
  std::vector<Variable> variables_;
  int condition_ = -1;
  std::set<int> frame_;
};

}  // namespace

int raise_loops(ControlFlowGraph& graph, bool drops_checks) {
  std::map<std::string, std::vector<int>> frames;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const FileNode& node = graph.nodes()[n];
    const auto* frame = node.op == "Enter" ? node.attribute("frame_name") : nullptr;
    if (frame) frames[frame->s()].push_back(static_cast<int>(n));
  }
  int raised = 0;
  if (frames.size() > kMostLoops) return 0;
  for (const auto& [frame, enters] : frames) raised += Loop(graph, enters, drops_checks).raise() ? 1 : 0;
  return raised;
}

}  // namespace graft::tensorflow
