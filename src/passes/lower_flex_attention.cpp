// SPDX-License-Identifier: Apache-2.0
// FlexAttention(q, k, v) with graphs that change scores or probabilities -> products around a softmax, with the graphs
// in place between them, so that they fuse with the rest.
#include <memory>
#include <optional>

#include "graph/bodies.h"
#include "graph/insert_graph.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

class FlexAttentionLowering {
 public:
  FlexAttentionLowering(Graph& graph, int index) : graph_(graph), index_(index), node_(graph.nodes[index]) {}

  void run() {
    const DType type = graph_.value(node_.inputs[0]).type;
    const DType otherwise = type == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    const auto precision = integer(node_, "softmax_precision", onnx_code(otherwise));
    const ValueId q = node_.inputs[0], k = repeated(node_.inputs[1]), v = repeated(node_.inputs[2]);
    const ValueId turned = emit("turn", "Transpose", {k}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
    const ValueId products = cast(emit("scores", "MatMul", {q, turned}), precision);
    const ValueId scores = emit("scaled", "Mul", {products, scale(precision)});
    const ValueId weights = emit("weights", "Softmax", {changed(scores, "score_mod")}, {{"axis", int64_t{-1}}});
    const ValueId stored = cast(changed(weights, "prob_mod"), onnx_code(type));
    replace_node(graph_, index_, "MatMul", {stored, v});
  }

 private:
  ValueId emit(std::string_view name, std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    return append_node(graph_, node_.name + "/" + std::string(name), op, std::move(inputs), DType::kUndefined,
                       std::nullopt, std::move(attributes));
  }
  ValueId cast(ValueId x, int64_t type) { return emit("cast", "Cast", {x}, {{"to", type}}); }
  ValueId size_of(ValueId x, int64_t axis) {
    return emit("size", "Shape", {x}, {{"start", axis}, {"end", axis + 1}});
  }

  /// 1 / sqrt(size of a head), unless the node says another.
  ValueId scale(int64_t type) {
    if (node_.attributes.contains("scale")) {
      const std::vector<double> value = {real(node_, "scale", 1)};
      return cast(graph_.add_constant(node_.name + "/scale", TensorData::from_values(DType::kFloat32, {1}, value)),
                  type);
    }
    const ValueId size = cast(size_of(node_.inputs[0], 3), type);
    return emit("scale", "Reciprocal", {emit("root", "Sqrt", {size})});
  }

  /// Keys or values for each head of the queries: groups of these share one.
  ValueId repeated(ValueId x) {
    const auto& all = graph_.value(node_.inputs[0]).shape;
    const auto& own = graph_.value(x).shape;
    if (all && own && all->size() == 4 && own->size() == 4 && (*all)[1] == (*own)[1]) return x;
    const ValueId share = emit("share", "Div", {size_of(node_.inputs[0], 1), size_of(x, 1)});
    const ValueId two = add_integers(graph_, node_.name + "/axis", {2});
    const ValueId apart = emit("apart", "Unsqueeze", {x, two});
    const auto joined = [&](std::vector<ValueId> sizes) {
      return emit("shape", "Concat", std::move(sizes), {{"axis", int64_t{0}}});
    };
    const ValueId shape = joined({size_of(x, 0), size_of(x, 1), share, size_of(x, 2), size_of(x, 3)});
    const ValueId copies = emit("copies", "Expand", {apart, shape});
    return emit("repeated", "Reshape",
                {copies, joined({size_of(x, 0), size_of(node_.inputs[0], 1), size_of(x, 2), size_of(x, 3)})});
  }

  /// What the graph of that name, if there is one, makes of a tensor. Its own sizes mean nothing here.
  ValueId changed(ValueId x, std::string_view attribute) {
    for (const NodeBody& body : bodies_of(node_)) {
      if (body.attribute != attribute) continue;
      Graph inside = *body.graph;
      inside.derived = {};
      for (Value& value : inside.values) {
        if (!value.constant) value.shape.reset(), value.content.reset();
      }
      std::vector<ValueId> arguments = {x};
      for (const ValueId captured : body.captured_by(node_)) arguments.push_back(captured);
      const std::vector<ValueId> copies = insert_graph(graph_, inside, arguments, node_.name);
      return copies[static_cast<size_t>(inside.outputs[0])];
    }
    return x;
  }

  Graph& graph_;
  int index_;
  const Node node_;  ///< as it was
};

/// Whether a graph takes one tensor, beside what it captures, and gives one.
bool fits(const NodeBody& body) {
  return body.graph->inputs.size() == 1 + body.captures && body.graph->outputs.size() == 1;
}

bool lower_nodes(Graph& graph, const PassContext& context) {
  bool changed = false;
  const int count = static_cast<int>(graph.nodes.size());
  for (int i = 0; i < count; ++i) {
    const Node& node = graph.nodes[static_cast<size_t>(i)];
    if (node.domain != "ai.onnx.preview" || node.op != "FlexAttention" || !has_subgraph(node)) continue;
    bool fit = own_input_count(node) == 3 && graph.value(node.inputs[0]).type != DType::kUndefined;
    for (const NodeBody& body : bodies_of(node)) fit = fit && fits(body);
    if (fit) {
      FlexAttentionLowering(graph, i).run();
    } else {
      context.left("lower_flex_attention", node, "its graphs do not fit what they are given");
    }
    changed |= fit;
  }
  if (changed) graph.sort_nodes();
  return changed;
}

}  // namespace

bool lower_flex_attention(Graph& graph, const PassContext& context) {
  return rewrite_with_bodies(graph, [&](Graph& part) { return lower_nodes(part, context); });
}

}  // namespace graft::passes
