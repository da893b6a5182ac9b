// SPDX-License-Identifier: Apache-2.0
// f(constants) -> constant, by the interpreter; a value whose elements are known sizes -> constant.
#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "graph/evaluate_graph.h"
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

/// Bytes of a node's outputs by their inferred shapes, or -1.
int64_t result_bytes(const Graph& graph, const Node& node) {
  int64_t bytes = 0;
  for (const ValueId output : node.outputs) {
    if (output == kNoValue) continue;
    const auto shape = constant_shape(graph, output);
    if (!shape || graph.value(output).type == DType::kUndefined) return -1;
    bytes += packed_bytes(graph.value(output).type, checked_element_count(graph.value(output).type, *shape));
  }
  return bytes;
}

/// Why a node over constants is not folded, or an empty text.
std::string_view folding_fault(const Graph& graph, const Node& node, const PassContext& context) {
  if (!find_op(node.domain, node.op)) return "it has no definition";
  int64_t given = 0;
  for (const ValueId id : node.inputs) given += id == kNoValue ? 0 : graph.value(id).constant->byte_count();
  const int64_t bytes = result_bytes(graph, node);
  if (bytes > std::max(context.max_folded_bytes, given)) return "the result is larger than the limit and the inputs";
  const auto steps = steps_of(node, graph);
  return steps && *steps > context.max_folded_steps ? "it takes too many steps in the interpreter" : "";
}

bool fold_node(Graph& graph, int index, const PassContext& context) {
  const Node& node = graph.nodes[index];
  const bool known = std::all_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId id) { return id == kNoValue || graph.value(id).constant.has_value(); });
  if (!known || is_random(node) || has_subgraph(node)) return false;
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
