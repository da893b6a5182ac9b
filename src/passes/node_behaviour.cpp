// SPDX-License-Identifier: Apache-2.0
#include "passes/node_behaviour.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "graph/op_def.h"

namespace graft::passes {
namespace {

/// A node whose one result one Compute defines.
struct OneCompute {
  NodeDefinition definition;
  const Compute& form() const { return std::get<Compute>(definition.region.forms[0]); }
  /// The node's input that a tensor of the region is.
  int input_of(int tensor) const {
    const std::vector<int>& inputs = definition.region.inputs;
    const auto at = std::find(inputs.begin(), inputs.end(), tensor);
    return at == inputs.end() ? -1 : definition.inputs[at - inputs.begin()];
  }
};

std::optional<OneCompute> compute_of(const Graph& graph, const Node& node) {
  if (node.outputs.size() != 1) return std::nullopt;
  try {
    OneCompute made{define(node, graph)};
    const Region& region = made.definition.region;
    const bool one = region.forms.size() == 1 && std::holds_alternative<Compute>(region.forms[0]);
    return one ? std::optional(std::move(made)) : std::nullopt;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return std::nullopt;
  }
}

/// Whether a load is of the element at the place of the result: its last axes are the result's last, or broadcast.
bool is_at_its_place(const ExprNode& load, const Compute& form) {
  if (load.args.size() > form.axes.size()) return false;
  const size_t skipped = form.axes.size() - load.args.size();
  for (size_t k = 0; k < load.args.size(); ++k) {
    const Expr& axis = form.axes[skipped + k].variable;
    if (!equal(load.args[k], axis) && as_integer(load.args[k]) != 0) return false;
  }
  return true;
}

}  // namespace

bool is_elementwise(const Graph& graph, const Node& node) {
  const auto made = compute_of(graph, node);
  if (!made) return false;
  bool all = true;
  std::set<int> read;
  for_each(made->form().value, [&](const Expr& e) {
    if (e->kind != ExprKind::kLoad) {
      // A value that depends on the place itself: iota, a mask by position.
      const auto& axes = made->form().axes;
      const bool index =
          e->kind == ExprKind::kCall && std::any_of(e->args.begin(), e->args.end(), [&](const Expr& arg) {
            return std::any_of(axes.begin(), axes.end(), [&](const Axis& axis) { return equal(arg, axis.variable); });
          });
      all &= !index;
      return;
    }
    read.insert(made->input_of(e->tensor));
    all &= is_at_its_place(*e, made->form());
  });
  // What is no tensor of the region, as the shape of a Reshape that changes nothing, has places of its own.
  for (size_t k = 0; k < node.inputs.size(); ++k)
    all &= node.inputs[k] == kNoValue || read.contains(static_cast<int>(k));
  return all && !read.empty();
}

bool moves_elements(const Graph& graph, const Node& node, DType type) {
  const OpDef* op = find_op(node.domain, node.op);
  if (!op) return false;
  Graph trial;
  Node moved = node;
  for (ValueId& id : moved.inputs) {
    if (id == kNoValue) continue;
    Value value = graph.value(id);
    if (&id == &moved.inputs.front()) value = Value{.name = value.name, .type = type, .shape = value.shape};
    value.producer = -1;
    trial.values.push_back(std::move(value));
    id = static_cast<ValueId>(trial.values.size()) - 1;
  }
  for (ValueId& id : moved.outputs) id = trial.add_value("result", DType::kUndefined);
  if (!operand_fault(*op, moved, trial).empty()) return false;
  const auto made = compute_of(trial, moved);
  if (!made) return false;
  const Expr& value = made->form().value;
  return value->kind == ExprKind::kLoad && made->input_of(value->tensor) == 0;
}

}  // namespace graft::passes
