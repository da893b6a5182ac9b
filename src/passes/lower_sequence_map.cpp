// SPDX-License-Identifier: Apache-2.0
// SequenceMap(sequences and tensors, body) -> Loop over the elements, which carries the sequences of its results.
#include <memory>

#include "graph/bodies.h"
#include "graph/dynamic_type.h"
#include "graph/infer.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

bool is_sequence(const Value& value) { return type_of(value).kind == DynamicType::Kind::kSequence; }

/// Adds a node of one result, and infers it.
ValueId add(Graph& graph, const std::string& name, std::string_view op, std::vector<ValueId> inputs,
            Attributes attributes = {}) {
  Node node{.name = name, .domain = "", .op = std::string(op), .attributes = std::move(attributes)};
  node.inputs = std::move(inputs);
  const ValueId result = graph.add_value(name, DType::kUndefined);
  node.outputs = {result};
  graph.add_node(std::move(node));
  infer_node(graph, static_cast<int>(graph.nodes.size()) - 1);
  return result;
}

class SequenceMapLowering {
 public:
  SequenceMapLowering(Graph& graph, int index)
      : graph_(graph), index_(index), node_(graph.nodes[index]), own_(own_input_count(node_)) {}

  /// Why the node stays, or an empty text.
  std::string_view run() {
    const std::vector<NodeBody> bodies = bodies_of(node_);
    if (bodies.size() != 1 || own_ == 0) return "it has no graph or no input";
    const Graph& map = *bodies[0].graph;
    if (map.inputs.size() != own_ + bodies[0].captures || map.outputs.size() != node_.outputs.size()) {
      return "its graph does not fit its inputs and outputs";
    }
    for (const ValueId id : node_.inputs) {
      if (id == kNoValue) return "one of its inputs is left out";
    }
    if (!is_sequence(graph_.value(node_.inputs[0]))) return "its first input is no sequence";
    auto body = std::make_shared<Graph>(map);
    give_element_types(*body);
    std::vector<DType> types;
    for (const ValueId id : body->outputs) {
      types.push_back(body->value(id).type);
      if (types.back() == DType::kUndefined) return "the type of what its graph gives is not known";
    }
    make_body(*body, types);
    replace(std::move(body), types, bodies[0]);
    return "";
  }

 private:
  /// The body's inputs are elements, or tensors as they are; what it gives has types then.
  void give_element_types(Graph& body) const {
    for (size_t k = 0; k < own_; ++k) {
      const Value& outer = graph_.value(node_.inputs[k]);
      Value& inner = body.value(body.inputs[k]);
      const DynamicType type = is_sequence(outer) ? *type_of(outer).element : type_of(outer);
      if (!type.is_tensor() || type.type == DType::kUndefined) continue;
      inner.type = type.type;
      inner.content.reset();
      if (!type.shape) continue;
      inner.shape.emplace();
      for (const auto& size : *type.shape) {
        inner.shape->push_back(size ? Size(*size) : Size::symbol("element_" + std::to_string(k) + "_" +
                                                                 std::to_string(inner.shape->size())));
      }
    }
    infer_types(body);
  }

  /// (element..., captures) -> (results) becomes (round, condition, sequences, inputs of the node, captures) ->
  /// (condition, sequences).
  void make_body(Graph& body, const std::vector<DType>& types) const {
    const std::vector<ValueId> elements(body.inputs.begin(), body.inputs.begin() + static_cast<std::ptrdiff_t>(own_));
    const std::vector<ValueId> captures(body.inputs.begin() + static_cast<std::ptrdiff_t>(own_), body.inputs.end());
    const ValueId round = body.add_value("round", DType::kInt64, Shape{});
    const ValueId condition = body.add_value("condition", DType::kBool, Shape{});
    body.inputs = {round, condition};
    std::vector<ValueId> outputs = {condition};
    std::vector<ValueId> carried;
    for (size_t j = 0; j < types.size(); ++j) {
      DynamicType element;
      element.type = types[j];
      element.absent = true;
      carried.push_back(body.add_value("results", DType::kUndefined));
      body.value(carried[j]).dynamic_type = print(DynamicType::sequence_of(element));
      body.inputs.push_back(carried[j]);
    }
    for (size_t k = 0; k < own_; ++k) body.inputs.push_back(whole_input(body, elements[k], k, round));
    body.inputs.insert(body.inputs.end(), captures.begin(), captures.end());
    for (size_t j = 0; j < types.size(); ++j) {
      outputs.push_back(add(body, node_.name + "/result", "SequenceInsert", {carried[j], body.outputs[j]}));
    }
    body.outputs = std::move(outputs);
    body.sort_nodes();
  }

  /// The input of the loop's body that an input of the map becomes: a sequence, whose element is read, or the tensor.
  ValueId whole_input(Graph& body, ValueId element, size_t k, ValueId round) const {
    const Value& outer = graph_.value(node_.inputs[k]);
    if (!is_sequence(outer)) return element;
    const ValueId whole = body.add_value(body.value(element).name + "/all", DType::kUndefined);
    body.value(whole).dynamic_type = outer.dynamic_type;
    Node at{.name = node_.name + "/element", .domain = "", .op = "SequenceAt", .attributes = {}};
    at.inputs = {whole, round};
    at.outputs = {element};
    body.add_node(std::move(at));
    return whole;
  }

  void replace(std::shared_ptr<Graph> body, const std::vector<DType>& types, const NodeBody& map) {
    std::vector<ValueId> inputs = {add(graph_, node_.name + "/length", "SequenceLength", {node_.inputs[0]}), kNoValue};
    for (const DType type : types) {
      inputs.push_back(add(graph_, node_.name + "/empty", "SequenceEmpty", {}, {{"dtype", int64_t{onnx_code(type)}}}));
    }
    inputs.insert(inputs.end(), node_.inputs.begin(), node_.inputs.end());
    Node& loop = graph_.nodes[static_cast<size_t>(index_)];
    loop.op = "Loop";
    loop.inputs = std::move(inputs);
    loop.attributes.clear();
    loop.attributes["body"] = std::shared_ptr<const Graph>(std::move(body));
    loop.attributes["captures"] = std::vector<int64_t>{static_cast<int64_t>(own_ + map.captures)};
  }

  Graph& graph_;
  int index_;
  const Node node_;  ///< as it was
  size_t own_;       ///< its inputs without what its graph captures
};

}  // namespace

bool lower_sequence_map(Graph& graph, const PassContext& context) {
  return rewrite_with_bodies(graph, [&](Graph& part) {
    bool changed = false;
    const size_t count = part.nodes.size();
    for (size_t n = 0; n < count; ++n) {
      if (!is_op(part.nodes[n], {"SequenceMap"})) continue;
      const Node before = part.nodes[n];
      const std::string_view reason = SequenceMapLowering(part, static_cast<int>(n)).run();
      if (!reason.empty()) context.left("lower_sequence_map", before, reason);
      changed |= reason.empty();
    }
    if (changed) {
      part.sort_nodes();
      infer_types(part);
    }
    return changed;
  });
}

}  // namespace graft::passes
