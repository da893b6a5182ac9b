// SPDX-License-Identifier: Apache-2.0
// Scan(states, sequences, body) -> Loop(length, states, body), which gathers its own elements; Slice and Transpose put
// what it collects into other directions and along other axes.
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "graph/bodies.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

/// What a Scan says of one sequence.
struct Sequence {
  int64_t axis = 0;
  bool reversed = false;
};

int64_t listed(const Node& node, std::string_view name, size_t k) {
  const std::vector<int64_t> list = integers(node, name);
  return k < list.size() ? list[k] : 0;
}

/// The axis counted from the first; nothing when the tensor has no such axis, or one is counted from an unknown end.
std::optional<int64_t> counted_axis(int64_t axis, int rank) {
  if (rank < 0) return axis >= 0 ? std::optional<int64_t>(axis) : std::nullopt;
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? std::optional<int64_t>(axis) : std::nullopt;
}

class ScanLowering {
 public:
  ScanLowering(Graph& graph, int index) : graph_(graph), index_(index), node_(graph.nodes[index]) {}

  /// Why the Scan stays, or an empty text.
  std::string_view run() {
    const std::vector<NodeBody> bodies = bodies_of(node_);
    const int64_t scanned = integer(node_, "num_scan_inputs", 0);
    const auto own = static_cast<int64_t>(own_input_count(node_));
    if (bodies.size() != 1 || scanned < 1 || scanned > own) return "num_scan_inputs does not fit its inputs";
    states_ = static_cast<size_t>(own - scanned);
    const NodeBody& body = bodies[0];
    if (body.graph->inputs.size() != static_cast<size_t>(own) + body.captures ||
        body.graph->outputs.size() < std::max(states_, node_.outputs.size())) {
      return "its graph does not fit its inputs and outputs";
    }
    for (const ValueId id : node_.inputs) {
      if (id == kNoValue) return "one of its inputs is left out";
    }
    for (size_t k = states_; k < static_cast<size_t>(own); ++k) {
      const auto axis = counted_axis(listed(node_, "scan_input_axes", k - states_), rank_of(graph_, node_.inputs[k]));
      if (!axis) return "the axis of a sequence is not known";
      scanned_.push_back({*axis, listed(node_, "scan_input_directions", k - states_) != 0});
    }
    for (size_t k = states_; k < node_.outputs.size(); ++k) {
      const int64_t axis = listed(node_, "scan_output_axes", k - states_);
      const int rank = rank_of(*body.graph, body.graph->outputs[k]);
      const auto counted = axis != 0 && rank < 0 ? std::nullopt : counted_axis(axis, rank < 0 ? rank : rank + 1);
      if (!counted) return "the axis of an output is not known";
      given_.push_back({*counted, listed(node_, "scan_output_directions", k - states_) != 0});
      ranks_.push_back(rank + 1);
    }
    replace(body);
    return "";
  }

 private:
  void replace(const NodeBody& body) {
    std::vector<ValueId> inputs = {length(), kNoValue};
    inputs.insert(inputs.end(), node_.inputs.begin(), node_.inputs.begin() + static_cast<std::ptrdiff_t>(states_));
    inputs.insert(inputs.end(), node_.inputs.begin() + static_cast<std::ptrdiff_t>(states_), node_.inputs.end());
    const auto captures = static_cast<int64_t>(scanned_.size() + body.captures);
    Attributes attributes;
    attributes["body"] = std::shared_ptr<const Graph>(loop_body(*body.graph));
    attributes["captures"] = std::vector<int64_t>{captures};
    const std::vector<ValueId> outputs = node_.outputs;
    Node& loop = graph_.nodes[index_];
    loop.op = "Loop";
    loop.inputs = std::move(inputs);
    loop.attributes = std::move(attributes);
    for (size_t k = 0; k < given_.size(); ++k) {
      if (outputs[states_ + k] != kNoValue) turn(given_[k], ranks_[k], states_ + k, outputs[states_ + k]);
    }
  }

  /// The length of the first sequence.
  ValueId length() {
    Attributes axis;
    axis["start"] = scanned_[0].axis;
    axis["end"] = scanned_[0].axis + 1;
    return append_node(graph_, node_.name + "/length", "Shape", {node_.inputs[states_]}, DType::kInt64,
                       Shape{Size(1)}, std::move(axis));
  }

  /// (round, condition, states, sequences, captures) -> (condition, states, elements)
  std::shared_ptr<Graph> loop_body(const Graph& scan) const {
    auto body = std::make_shared<Graph>(scan);
    const ValueId round = body->add_value("round", DType::kInt64, Shape{});
    const ValueId condition = body->add_value("condition", DType::kBool, Shape{});
    std::vector<ValueId> inputs = {round, condition};
    inputs.insert(inputs.end(), scan.inputs.begin(), scan.inputs.begin() + static_cast<std::ptrdiff_t>(states_));
    for (size_t k = 0; k < scanned_.size(); ++k) {
      const ValueId element = scan.inputs[states_ + k];
      const ValueId outer = node_.inputs[states_ + k];
      const ValueId whole = body->add_value(body->value(element).name + "/all", graph_.value(outer).type,
                                            graph_.value(outer).shape);
      inputs.push_back(whole);
      ValueId place = round;
      if (scanned_[k].reversed) {
        const ValueId last = body->add_constant("last", TensorData::from_values<int64_t>(DType::kInt64, {}, {-1}));
        place = append_node(*body, node_.name + "/backwards", "Sub", {last, round}, DType::kInt64, Shape{});
      }
      body->value(element).content.reset();
      Node gather{.name = node_.name + "/element", .domain = "", .op = "Gather"};
      gather.attributes["axis"] = scanned_[k].axis;
      gather.inputs = {whole, place};
      gather.outputs = {element};
      body->add_node(std::move(gather));
    }
    inputs.insert(inputs.end(), scan.inputs.begin() + static_cast<std::ptrdiff_t>(states_ + scanned_.size()),
                  scan.inputs.end());
    body->inputs = std::move(inputs);
    body->outputs.insert(body->outputs.begin(), condition);
    body->sort_nodes();
    return body;
  }

  /// The Loop stacks what it collects along a new first axis, in the order of its rounds.
  void turn(const Sequence& wanted, int rank, size_t output, ValueId result) {
    if (!wanted.reversed && wanted.axis == 0) return;
    const std::string name = graph_.nodes[index_].name;
    ValueId stacked = graph_.add_value(graph_.value(result).name + "/stacked", graph_.value(result).type);
    graph_.nodes[index_].outputs[output] = stacked;
    graph_.value(stacked).producer = index_;
    if (wanted.reversed) {
      const std::vector<ValueId> bounds = {stacked, add_integers(graph_, name + "/from", {-1}),
                                           add_integers(graph_, name + "/to", {std::numeric_limits<int64_t>::min()}),
                                           add_integers(graph_, name + "/axis", {0}),
                                           add_integers(graph_, name + "/step", {-1})};
      append_to(wanted.axis == 0 ? result : kNoValue, "Slice", bounds, {}, stacked, name + "/reverse");
    }
    if (wanted.axis == 0) return;
    std::vector<int64_t> order;
    for (int64_t d = 1; d < rank; ++d) order.push_back(d);
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(wanted.axis), 0);
    Attributes attributes;
    attributes["perm"] = std::move(order);
    append_to(result, "Transpose", {stacked}, std::move(attributes), stacked, name + "/turn");
  }

  /// A node that gives `result`, or a value of its own; `given` becomes it.
  void append_to(ValueId result, std::string_view op, std::vector<ValueId> inputs, Attributes attributes,
                 ValueId& given, const std::string& name) {
    const ValueId fresh = result == kNoValue ? graph_.add_value(name, DType::kUndefined) : result;
    Node node{.name = name, .domain = "", .op = std::string(op), .attributes = std::move(attributes)};
    node.inputs = std::move(inputs);
    node.outputs = {fresh};
    graph_.add_node(std::move(node));
    given = fresh;
  }

  Graph& graph_;
  int index_;
  const Node node_;  ///< as it was
  size_t states_ = 0;
  std::vector<Sequence> scanned_, given_;
  std::vector<int> ranks_;  ///< of the outputs that are collected
};

bool lower_nodes(Graph& graph, const PassContext& context) {
  bool changed = false;
  const int count = static_cast<int>(graph.nodes.size());
  for (int i = 0; i < count; ++i) {
    if (!is_op(graph.nodes[i], {"Scan"}) || !has_subgraph(graph.nodes[i])) continue;
    const std::string_view fault = ScanLowering(graph, i).run();
    if (!fault.empty()) context.left("lower_scan", graph.nodes[i], fault);
    changed |= fault.empty();
  }
  if (changed) graph.sort_nodes();
  return changed;
}

}  // namespace

bool lower_scan(Graph& graph, const PassContext& context) {
  return rewrite_with_bodies(graph, [&](Graph& part) { return lower_nodes(part, context); });
}

}  // namespace graft::passes
