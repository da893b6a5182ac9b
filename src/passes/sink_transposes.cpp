// SPDX-License-Identifier: Apache-2.0
// f(Transpose(x)) -> Transpose(f(x)) for element-wise f, so that transpositions meet and cancel: one operand less to
// turn where two met, none where the inverse follows.
#include <algorithm>

#include "passes/edit.h"
#include "passes/node_behaviour.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

using Permutation = std::vector<int64_t>;

/// The transposition that computes the value and is read by the node alone; empty when there is none.
Permutation transposition(const Graph& graph, const Matcher& matcher, ValueId value, int reader) {
  const Node* node = producer(graph, value);
  if (!node || !is_op(*node, {"Transpose"}) || matcher.only_consumer(value) != reader) return {};
  return integers(*node, "perm");
}

/// A constant seen before the transposition: scalars as they are, others with all axes and turned back.
ValueId turn_back(Graph& graph, ValueId id, const Permutation& permutation) {
  const TensorData data = *constant_of(graph, id);
  if (data.element_count() == 1 && data.rank() <= 1) return id;
  const size_t rank = permutation.size();
  std::vector<int64_t> extents(rank - data.shape().size(), 1);
  extents.insert(extents.end(), data.shape().begin(), data.shape().end());
  // Axis k of the operand is axis permutation[k] before the transposition.
  std::vector<int64_t> turned(rank), strides(rank, 1), step(rank);
  for (size_t k = rank; k-- > 1;) strides[k - 1] = strides[k] * extents[k];
  for (size_t k = 0; k < rank; ++k) {
    turned[permutation[k]] = extents[k];
    step[permutation[k]] = strides[k];
  }
  TensorData result = TensorData::zeros(data.type(), turned);
  const size_t width = static_cast<size_t>(bit_width(data.type())) / 8;
  std::vector<int64_t> position(rank, 0);
  for (int64_t i = 0; i < data.element_count(); ++i) {
    int64_t source = 0;
    for (size_t k = 0; k < rank; ++k) source += position[k] * step[k];
    const auto from = data.bytes().subspan(static_cast<size_t>(source) * width, width);
    std::copy(from.begin(), from.end(), result.mutable_bytes().begin() + i * static_cast<int64_t>(width));
    for (size_t k = rank; k-- > 0 && ++position[k] == turned[k];) position[k] = 0;
  }
  return graph.add_constant(graph.value(id).name, std::move(result));
}

/// Whether the constant can be turned back: whole bytes, no more axes than the permutation, no strings.
bool can_turn_back(const Graph& graph, ValueId id, size_t rank) {
  const TensorData* data = constant_of(graph, id);
  return data && static_cast<size_t>(data->rank()) <= rank && bit_width(data->type()) % 8 == 0 &&
         data->type() != DType::kString;
}

/// The permutation that all transposed operands of the node share, while the others are constants; empty otherwise.
Permutation common_permutation(const Graph& graph, const Matcher& matcher, int index) {
  const Node& node = graph.nodes[index];
  Permutation common;
  for (const ValueId id : node.inputs) {
    if (id == kNoValue || constant_of(graph, id)) continue;
    const Permutation own = matcher.is_new(id) ? Permutation() : transposition(graph, matcher, id, index);
    if (own.empty() || (!common.empty() && own != common)) return {};
    common = own;
  }
  for (const ValueId id : node.inputs) {
    if (id != kNoValue && constant_of(graph, id) && !can_turn_back(graph, id, common.size())) return {};
  }
  return !common.empty() && node.domain.empty() && is_elementwise(graph, node) ? common : Permutation();
}

bool sink(Graph& graph, const Matcher& matcher, int index) {
  const Permutation permutation = common_permutation(graph, matcher, index);
  if (permutation.empty()) return false;
  const Node node = graph.nodes[index];
  std::vector<ValueId> inputs;
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) {
      inputs.push_back(id);
    } else if (constant_of(graph, id)) {
      inputs.push_back(turn_back(graph, id, permutation));
    } else {
      inputs.push_back(producer(graph, id)->inputs[0]);
    }
  }
  std::optional<Shape> shape;
  if (graph.value(node.outputs[0]).shape) {
    shape.emplace(permutation.size());
    for (size_t k = 0; k < permutation.size(); ++k) {
      (*shape)[permutation[k]] = (*graph.value(node.outputs[0]).shape)[k];
    }
  }
  const auto transposed = std::find_if(node.inputs.begin(), node.inputs.end(),
                                       [&](ValueId id) { return id != kNoValue && !constant_of(graph, id); });
  const int transpose_index = graph.value(*transposed).producer;
  const ValueId result = append_node(graph, node.name, node.op, std::move(inputs), graph.value(node.outputs[0]).type,
                                     std::move(shape), node.attributes);
  replace_node(graph, index, "Transpose", {result}, {{"perm", permutation}});
  std::swap(graph.nodes[index].name, graph.nodes.back().name);
  std::swap(graph.nodes[index].name, graph.nodes[transpose_index].name);
  return true;
}

}  // namespace

bool sink_transposes(Graph& graph, const PassContext&) { return rewrite_nodes(graph, sink); }

}  // namespace graft::passes
