// SPDX-License-Identifier: Apache-2.0
// f(constants) -> constant, by the interpreter; a value whose elements are known sizes -> constant.
#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "graph/custom_operator.h"
#include "graph/evaluate_graph.h"
#include "graph/host_operator.h"
#include "graph/op_def.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

/// Makes the value a constant; whoever computed it loses it.
void set_constant(Graph& graph, ValueId id, TensorData data) {
  Value& value = graph.value(id);
  value.type = data.type();
  value.shape = Shape(data.shape().begin(), data.shape().end());
  value.constant = std::move(data);
  value.producer = -1;
  value.content.reset();
}

/// The constant behind known elements, or an empty tensor while one is symbolic.
TensorData constant_content(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  const auto shape = constant_shape(graph, id);
  if (!value.content || !shape) return {};
  std::vector<int64_t> elements;
  for (const Size& size : *value.content) {
    if (!size.is_constant()) return {};
    elements.push_back(size.constant());
  }
  return TensorData::from_values<int64_t>(value.type, *shape, elements);
}

/// Folds outputs whose elements inference knows, whatever the inputs are (Shape of a fixed axis, and what follows).
bool fold_content(Graph& graph, int index) {
  if (is_random(graph.nodes[index])) return false;
  std::vector<TensorData> contents;
  for (const ValueId output : graph.nodes[index].outputs) {
    contents.push_back(output == kNoValue ? TensorData() : constant_content(graph, output));
    if (output != kNoValue && !contents.back()) return false;
  }
  for (size_t k = 0; k < contents.size(); ++k) {
    if (contents[k]) set_constant(graph, graph.nodes[index].outputs[k], std::move(contents[k]));
  }
  return true;
}

/// What computing a node of constants takes, with everything that it counts at its largest.
struct FoldingCost {
  double result_bytes = 0;   ///< of its outputs
  double working_bytes = 0;  ///< of all tensors that it computes
  double steps = 0;          ///< in the interpreter
};

/// The extents of a form's loops, all of them known but for what the region counts.
double points_of(const Form& form, const Bindings& counts) {
  double points = 1;
  const auto multiply = [&](const Axis& axis) { points *= static_cast<double>(axis.extent.evaluate(counts)); };
  std::visit(
      [&](const auto& f) {
        std::for_each(f.axes.begin(), f.axes.end(), multiply);
        if constexpr (requires { f.reduced; }) std::for_each(f.reduced.begin(), f.reduced.end(), multiply);
        if constexpr (requires { f.axis; }) multiply(f.axis);
      },
      form);
  return points;
}

double bytes_of(const TensorDecl& tensor, const Bindings& counts) {
  double bytes = bit_width(tensor.type) / 8.0;
  for (const Size& size : tensor.shape) bytes *= static_cast<double>(size.evaluate(counts));
  return bytes;
}

/// Throws when a size is not known although all inputs are.
FoldingCost cost_of(const Node& node, const Graph& graph) {
  const Region region = define(node, graph).region;
  FoldingCost cost;
  Bindings counts;
  for (const Form& form : region.forms) {
    const double points = points_of(form, counts);
    cost.steps += points;
    constexpr double kMost = 1e18;
    if (const auto* compact = std::get_if<Compact>(&form)) {
      counts[compact->count] = static_cast<int64_t>(std::min(points, kMost));
    }
    for (const int tensor : defined_tensors(form)) cost.working_bytes += bytes_of(region.tensors[tensor], counts);
  }
  for (const int tensor : region.outputs) cost.result_bytes += bytes_of(region.tensors[tensor], counts);
  return cost;
}

/// Why a node over constants is not folded, or an empty text.
std::string_view folding_fault(const Graph& graph, const Node& node, const PassContext& context) {
  if (!operator_of(node)) return "it has no definition";
  int64_t given = 0;
  for (const ValueId id : node.inputs) given += id == kNoValue ? 0 : graph.value(id).constant->byte_count();
  const FoldingCost cost = cost_of(node, graph);
  const auto most = static_cast<double>(std::max(context.max_folded_bytes, given));
  constexpr double kWorkingShare = 16;  // the interpreter's tensors may be wider and more than the result
  if (cost.result_bytes > most) return "the result is larger than the limit and the inputs";
  if (cost.working_bytes > kWorkingShare * most) return "computing it takes more memory than the limit";
  const bool quick = cost.steps <= static_cast<double>(context.max_folded_steps);
  return quick ? "" : "it takes too many steps in the interpreter";
}

bool fold_node(Graph& graph, int index, const PassContext& context) {
  const Node& node = graph.nodes[index];
  const bool known = std::all_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId id) { return id == kNoValue || graph.value(id).constant.has_value(); });
  if (!known || is_random(node) || has_subgraph(node) || runs_on_host(node, graph)) return false;
  try {
    const std::string_view fault = folding_fault(graph, node, context);
    if (!fault.empty()) {
      context.left("fold_constants", node, fault);
      return false;
    }
    std::vector<TensorData> arguments;
    for (const ValueId id : node.inputs) arguments.push_back(id == kNoValue ? TensorData() : *constant_of(graph, id));
    std::vector<TensorData> results = evaluate_node(node, arguments);
    for (size_t k = 0; k < results.size(); ++k) {
      if (node.outputs[k] != kNoValue) set_constant(graph, node.outputs[k], std::move(results[k]));
    }
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal || error.kind() == ErrorKind::kOutOfMemory) throw;
    context.left("fold_constants", node, error.message());  // the run will say so again, when it comes here
    return false;
  }
}

}  // namespace

bool fold_constants(Graph& graph, const PassContext& context) {
  std::vector<bool> folded(graph.nodes.size(), false);
  bool changed = false;
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    folded[i] = fold_content(graph, i) || fold_node(graph, i, context);
    changed |= folded[i];
  }
  if (!changed) return false;
  graph.erase_nodes(folded);
  sweep(graph);
  return true;
}

}  // namespace graft::passes
