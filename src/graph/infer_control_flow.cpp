// SPDX-License-Identifier: Apache-2.0
#include "graph/infer_control_flow.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/free_name.h"
#include "graph/bodies.h"
#include "graph/dynamic_type.h"
#include "graph/infer.h"
#include "graph/symbols.h"

namespace graft {
namespace {

using Symbols = std::set<std::string, std::less<>>;

[[noreturn]] void reject(const Node& node, const std::string& message) {
  throw Error(ErrorKind::kInvalidModel, message, fmt::format("node '{}' ({})", node.name, node.op));
}

/// Sizes of the graph around a body as the body names them, and back. A body stands for itself: all that it knows of
/// sizes are the shapes of its inputs. Symbols that models name stay; any other size becomes a symbol of the body.
class Border {
 public:
  Border(Graph& outer, const Node& node) : outer_(outer) {
    for (const ValueId id : node.inputs) {
      if (id == kNoValue || !outer.value(id).shape) continue;
      for (const Size& size : *outer.value(id).shape) size.collect_symbols(taken_);
    }
  }

  Size inward(const Size& size, const std::string& hint) {
    if (size.is_constant()) return size;
    const auto symbol = size.as_symbol();
    if (symbol && !is_reserved_symbol(*symbol)) {
      bound_.insert(*symbol);
      return size;
    }
    const auto [known, fresh] = names_.try_emplace(size);
    if (fresh) {
      known->second = unused(hint);
      outward_[known->second] = size;
    }
    return Size::symbol(known->second);
  }

  /// A symbol that means nothing outside of the body.
  Size own_symbol(const std::string& hint) { return Size::symbol(unused(hint)); }

  /// Elements that are known outside, where the body can name all of them.
  std::optional<std::vector<Size>> inward(const std::vector<Size>& content) const {
    std::vector<Size> named;
    for (const Size& size : content) {
      const auto known = names_.find(size);
      if (known != names_.end()) {
        named.push_back(Size::symbol(known->second));
      } else if (consists_of(size, [&](const std::string& symbol) { return bound_.contains(symbol); })) {
        named.push_back(size);
      } else {
        return std::nullopt;
      }
    }
    return named;
  }

  /// A size that the body's inference found, as the graph around it says it; nothing when only a run of the body knows.
  std::optional<Size> outward(const Size& size, const Graph& body) {
    const auto known = [&](const std::string& symbol) {
      return bound_.contains(symbol) || outward_.find(symbol) != outward_.end();
    };
    if (!consists_of(size, known)) {
      if (!expanded_) name_derived(body, known);
      expanded_ = true;
      if (!consists_of(size, known)) return std::nullopt;
    }
    return outer_.derived.shortened(size.substitute(outward_));
  }

 private:
  template <class Predicate>
  static bool consists_of(const Size& size, const Predicate& known) {
    Symbols symbols;
    size.collect_symbols(symbols);
    return std::all_of(symbols.begin(), symbols.end(), known);
  }

  /// The body's long sizes are long sizes of the graph around it.
  template <class Predicate>
  void name_derived(const Graph& body, const Predicate& known) {
    for (const DerivedSize& derived : body.derived.list()) {
      if (!consists_of(derived.value, known)) continue;
      outward_[derived.symbol] = outer_.derived.shortened(derived.value.substitute(outward_));
    }
  }

  std::string unused(const std::string& hint) { return take_free_name(dimension_symbol(hint), taken_); }

  Graph& outer_;
  Symbols taken_, bound_;
  std::map<Size, std::string> names_;
  std::map<std::string, Size, std::less<>> outward_;
  bool expanded_ = false;
};

std::string axis_name(const std::string& value, size_t axis) { return fmt::format("{}_{}", value, axis); }

/// The symbol of an axis of an output that only a run knows.
Size counted(const Node& node, size_t output, size_t axis) {
  return Size::symbol(count_symbol(node.name, fmt::format("{}.{}", output, axis)));
}

class ControlFlowInference {
 public:
  ControlFlowInference(Graph& graph, int index, const InferBody& infer)
      : graph_(graph), index_(index), infer_(infer), node_(graph.nodes[static_cast<size_t>(index)]) {}

  void infer_if() {
    const std::vector<NodeBody> bodies = bodies_of(node_);
    if (bodies.size() != 2) reject(node_, "it has two graphs, then_branch and else_branch");
    if (own_input_count(node_) != 1) reject(node_, "it takes one input, the condition");
    require_type(node_.inputs[0], DType::kBool, "the condition");
    const std::string_view taken = known_branch();
    std::vector<Typed> branches;
    std::vector<std::string> attributes;
    for (const NodeBody& body : bodies) {
      if (!taken.empty() && body.attribute != taken) continue;  // what never runs need not fit the sizes
      Typed branch{*body.graph, Border(graph_, node_)};
      if (branch.body.inputs.size() != body.captures) reject(node_, "its graphs take other inputs than they capture");
      give_captures(branch, body);
      infer_(branch.body);
      require_outputs(branch.body, node_.outputs.size());
      branches.push_back(std::move(branch));
      attributes.push_back(body.attribute);
    }
    for (size_t i = 0; i < node_.outputs.size(); ++i) {
      if (node_.outputs[i] != kNoValue) join(i, branches.front(), branches.back());
    }
    for (size_t k = 0; k < branches.size(); ++k) keep(attributes[k], std::move(branches[k].body));
  }

  void infer_loop() {
    const std::vector<NodeBody> bodies = bodies_of(node_);
    const size_t own = own_input_count(node_);
    if (bodies.size() != 1 || own < 2) reject(node_, "it has one graph, and takes a limit and a condition first");
    if (bodies[0].graph->inputs.size() != own + bodies[0].captures) {
      reject(node_, "its graph takes other inputs than it is given");
    }
    require_type(node_.inputs[0], DType::kInt64, "the limit");
    require_type(node_.inputs[1], DType::kBool, "the condition");
    require_outputs(*bodies[0].graph, std::max(node_.outputs.size() + 1, own - 1));
    varies_.assign(own - 2, {});
    for (;;) {
      Typed typed = typed_loop(bodies[0], own);
      infer_(typed.body);
      const DType condition = typed.body.value(typed.body.outputs[0]).type;
      if (condition != DType::kBool && condition != DType::kUndefined) {
        reject(node_, fmt::format("its graph gives {} for the condition, not bool", name_of(condition)));
      }
      if (widen(typed.body)) continue;
      type_results(typed);
      keep(bodies[0].attribute, std::move(typed.body));
      return;
    }
  }

  /// The element types of what the body gives; lower_scan makes a Loop of the node.
  void infer_scan() {
    for (const NodeBody& body : bodies_of(node_)) {
      require_outputs(*body.graph, node_.outputs.size());
      for (size_t i = 0; i < node_.outputs.size(); ++i) {
        if (node_.outputs[i] == kNoValue) continue;
        const Value& inner = body.graph->value(body.graph->outputs[i]);
        if (inner.type != DType::kUndefined) graph_.value(node_.outputs[i]).type = inner.type;
      }
    }
  }

 private:
  /// A copy of a body whose inputs are typed.
  struct Typed {
    Graph body;
    Border border;
  };

  void require_type(ValueId id, DType type, std::string_view what) const {
    const DType given = id == kNoValue ? DType::kUndefined : graph_.value(id).type;
    if (given == DType::kUndefined || given == type) return;
    reject(node_, fmt::format("{} is {}, not {}", what, name_of(given), name_of(type)));
  }

  void require_outputs(const Graph& body, size_t least) const {
    if (body.outputs.size() >= least) return;
    reject(node_, fmt::format("the graph '{}' has {} outputs, too few", body.name, body.outputs.size()));
  }

  static void give_type(Value& inner, const Value& outer) {
    if (outer.type == DType::kUndefined && outer.dynamic_type.empty()) return;
    inner.type = outer.type;
    inner.dynamic_type = outer.dynamic_type;
  }

  void give_captures(Typed& typed, const NodeBody& body) const {
    const size_t first = typed.body.inputs.size() - body.captures;
    const std::vector<ValueId> captured = body.captured_by(node_);
    for (size_t i = 0; i < captured.size(); ++i) {
      Value& inner = typed.body.value(typed.body.inputs[first + i]);
      const Value& outer = graph_.value(captured[i]);
      give_type(inner, outer);
      if (!outer.shape) continue;
      inner.shape.emplace();
      for (const Size& size : *outer.shape) {
        inner.shape->push_back(typed.border.inward(size, axis_name(inner.name, inner.shape->size())));
      }
    }
    for (size_t i = 0; i < captured.size(); ++i) {
      const auto content = known_content(graph_.value(captured[i]));
      auto& inner = typed.body.value(typed.body.inputs[first + i]).content;
      inner = content ? typed.border.inward(*content) : std::nullopt;
    }
  }

  /// The number of the round and the condition have one element; models write [] or [1].
  static void give_scalar(Value& value, DType type) {
    value.type = type;
    value.content.reset();
    if (!value.shape || value.shape->size() != 1) value.shape = Shape{};
    if (value.shape->size() == 1) value.shape = Shape{Size(1)};
  }

  Typed typed_loop(const NodeBody& body, size_t own) {
    Typed typed{*body.graph, Border(graph_, node_)};
    give_scalar(typed.body.value(typed.body.inputs[0]), DType::kInt64);
    give_scalar(typed.body.value(typed.body.inputs[1]), DType::kBool);
    for (size_t k = 0; k + 2 < own; ++k) {
      Value& inner = typed.body.value(typed.body.inputs[2 + k]);
      const Value& outer = graph_.value(node_.inputs[2 + k]);
      give_type(inner, outer);
      inner.content.reset();
      inner.shape.reset();
      if (const auto wider = dynamic_.find(k); wider != dynamic_.end()) inner.dynamic_type = wider->second;
      if (!outer.shape || lost_rank(k)) continue;
      inner.shape.emplace();
      varies_[k].resize(outer.shape->size());
      for (const Size& size : *outer.shape) {
        const size_t axis = inner.shape->size();
        const std::string hint = axis_name(inner.name, axis);
        inner.shape->push_back(varies_[k][axis] ? typed.border.own_symbol(hint) : typed.border.inward(size, hint));
      }
    }
    give_captures(typed, body);
    return typed;
  }

  bool lost_rank(size_t k) const { return rankless_.contains(k); }

  /// Marks the carried axes that a round changes; whether there are any that were not marked yet.
  bool widen(const Graph& body) {
    bool changed = false;
    for (size_t k = 0; k < varies_.size(); ++k) {
      const Value& before = body.value(body.inputs[2 + k]);
      const Value& after = body.value(body.outputs[1 + k]);
      if (!before.dynamic_type.empty() || !after.dynamic_type.empty()) {
        changed |= widen_dynamic(k, before, after);
        continue;
      }
      if (before.type != after.type && before.type != DType::kUndefined && after.type != DType::kUndefined) {
        reject(node_, fmt::format("'{}' is carried as {}, but a round makes {} of it", before.name,
                                  name_of(before.type), name_of(after.type)));
      }
      if (!before.shape || !after.shape) continue;
      if (before.shape->size() != after.shape->size()) {
        rankless_.insert(k);
        changed = true;
        continue;
      }
      for (size_t axis = 0; axis < before.shape->size(); ++axis) {
        if (varies_[k][axis] || (*before.shape)[axis] == (*after.shape)[axis]) continue;
        changed = varies_[k][axis] = true;
      }
    }
    return changed;
  }

  /// What is carried has a type that holds what it was before and after a round.
  bool widen_dynamic(size_t k, const Value& before, const Value& after) {
    if (after.dynamic_type == before.dynamic_type) return false;
    const DynamicType first = type_of(before), second = type_of(after);
    const auto joined = graft::join(first, second);
    if (!joined || joined->is_tensor()) {
      reject(node_, fmt::format("'{}' is carried as {}, but a round makes {} of it", before.name, print(first),
                                print(second)));
    }
    std::string text = print(*joined);
    if (text == before.dynamic_type) return false;
    dynamic_[k] = std::move(text);
    return true;
  }

  void type_results(Typed& typed) {
    const size_t carried = varies_.size();
    for (size_t i = 0; i < node_.outputs.size(); ++i) {
      if (node_.outputs[i] == kNoValue) continue;
      Value& result = graph_.value(node_.outputs[i]);
      const Value& inner = typed.body.value(typed.body.outputs[1 + i]);
      give_type(result, inner);
      result.content.reset();
      if (i < carried) {
        const auto wider = dynamic_.find(i);
        if (wider != dynamic_.end()) result.dynamic_type = wider->second, result.type = DType::kUndefined;
        const Value& first = graph_.value(node_.inputs[2 + i]);
        result.shape = inner.shape ? first.shape : std::nullopt;
        if (lost_rank(i)) result.shape.reset();
        for (size_t axis = 0; result.shape && axis < result.shape->size(); ++axis) {
          if (varies_[i][axis]) (*result.shape)[axis] = counted(node_, i, axis);
        }
        continue;
      }
      result.shape.reset();
      if (!inner.dynamic_type.empty()) {
        reject(node_, fmt::format("it collects '{}', which is {}: only tensors are collected; carry it, and insert",
                                  inner.name, inner.dynamic_type));
      }
      if (!inner.shape) continue;
      result.shape = Shape{rounds(typed.body).value_or(counted(node_, i, 0))};
      for (const Size& size : *inner.shape) {
        const auto outer = typed.border.outward(size, typed.body);
        result.shape->push_back(outer ? *outer : counted(node_, i, result.shape->size()));
      }
    }
  }

  /// The number of rounds, where the limit is known and nothing else ends the loop.
  std::optional<Size> rounds(const Graph& body) const {
    if (!keeps_condition(body) || node_.inputs[0] == kNoValue) return std::nullopt;
    if (node_.inputs[1] != kNoValue) {
      const auto condition = known_content(graph_.value(node_.inputs[1]));
      if (!condition || condition->size() != 1 || !(*condition)[0].is_constant()) return std::nullopt;
      if ((*condition)[0].is(0)) return Size(0);
    }
    const auto limit = known_content(graph_.value(node_.inputs[0]));
    if (!limit || limit->size() != 1) return std::nullopt;
    if (const auto constant = (*limit)[0].as_constant()) return Size(std::max<int64_t>(0, *constant));
    return (*limit)[0].is_non_negative() ? std::optional<Size>((*limit)[0]) : std::nullopt;
  }

  /// The branch that a known condition takes, else an empty text.
  std::string_view known_branch() const {
    if (node_.inputs.empty() || node_.inputs[0] == kNoValue) return "";
    const auto condition = known_content(graph_.value(node_.inputs[0]));
    if (!condition || condition->size() != 1 || !condition->front().is_constant()) return "";
    return condition->front().is(0) ? "else_branch" : "then_branch";
  }

  /// What both branches agree on; an axis that they do not is known when one has run.
  void join(size_t i, Typed& one, Typed& other) {
    Value& result = graph_.value(node_.outputs[i]);
    const Value& a = one.body.value(one.body.outputs[i]);
    const Value& b = other.body.value(other.body.outputs[i]);
    if (!a.dynamic_type.empty() || !b.dynamic_type.empty()) {
      const auto joined = graft::join(type_of(a), type_of(b));
      if (!joined) {
        reject(node_, fmt::format("one branch gives {}, the other {} for its output '{}'", print(type_of(a)),
                                  print(type_of(b)), result.name));
      }
      result.type = DType::kUndefined;
      result.shape.reset();
      result.content.reset();
      result.dynamic_type = print(*joined);
      return;
    }
    if (a.type != b.type && a.type != DType::kUndefined && b.type != DType::kUndefined) {
      reject(node_, fmt::format("one branch gives {}, the other {} for its output '{}'", name_of(a.type),
                                name_of(b.type), result.name));
    }
    give_type(result, a);
    give_type(result, b);
    result.content.reset();
    result.shape.reset();
    if (!a.shape || !b.shape || a.shape->size() != b.shape->size()) return;
    result.shape.emplace();
    for (size_t axis = 0; axis < a.shape->size(); ++axis) {
      const auto first = one.border.outward((*a.shape)[axis], one.body);
      const auto second = other.border.outward((*b.shape)[axis], other.body);
      result.shape->push_back(first && first == second ? *first : counted(node_, i, axis));
    }
  }

  void keep(const std::string& attribute, Graph body) const {
    graph_.nodes[static_cast<size_t>(index_)].attributes[attribute] =
        std::shared_ptr<const Graph>(std::make_shared<Graph>(std::move(body)));
  }

  Graph& graph_;
  int index_;
  const InferBody& infer_;
  const Node node_;                        ///< as it was: its bodies change
  std::vector<std::vector<bool>> varies_;  ///< by carried value and axis: a round changes the size
  std::map<size_t, std::string> dynamic_;  ///< by carried value: a type that holds all that rounds make of it
  std::set<size_t> rankless_;              ///< carried values whose number of axes a round changes
};

}  // namespace

bool infer_control_flow(Graph& graph, int index, const InferBody& infer) {
  const Node& node = graph.nodes[static_cast<size_t>(index)];
  const bool scans = node.domain.empty() && node.op == "Scan";
  if ((!is_control_flow(node) && !scans) || bodies_of(node).empty()) return false;
  try {
    ControlFlowInference inference(graph, index, infer);
    if (scans) {
      inference.infer_scan();
    } else if (node.op == "If") {
      inference.infer_if();
    } else {
      inference.infer_loop();
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalidArgument) throw;
    // Sizes that overflow or contradict each other: in a graph, the model is to blame.
    reject(graph.nodes[static_cast<size_t>(index)], error.message());
  }
  return true;
}

}  // namespace graft
