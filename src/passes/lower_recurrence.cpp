// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU, RNN and LinearAttention over a length that only a run knows, or that is too long to be written out ->
// Scan, whose body is the same operator over one position. What does not depend on the state is made for all
// positions at once before: the products of the input and its weights.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "graph/infer.h"
#include "ops/recurrent.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

/// What the body gets position by position.
struct Scanned {
  size_t operand;       ///< of the body's operator
  ValueId whole;
  int64_t axis;         ///< of its positions
  bool keeps_axis = false;  ///< the operator's operand has that axis, of one position
};

/// One direction of a recurrence.
struct Recurrence {
  std::string name, domain, op;
  Attributes attributes;
  std::vector<Scanned> scanned;
  std::vector<std::pair<size_t, ValueId>> states;  ///< operand and initial value; the body's outputs 1, 2, ...
  std::vector<std::pair<size_t, ValueId>> fixed;   ///< operands that every position reads
  int64_t result_axis = 0;                         ///< of the positions in output 0, which has 3 axes
  bool keeps_result_axis = false;                  ///< the operator's own output has that axis, of one position
  bool reversed = false;
  bool wants_result = true;
};

class RecurrenceLowering {
 public:
  RecurrenceLowering(Graph& graph, int index) : graph_(graph), index_(index), node_(graph.nodes[index]) {}

  void run() {
    if (is_op(node_, {"LinearAttention"})) {
      const Outputs outputs = append_scan(linear_attention());
      for (size_t k = 0; k < node_.outputs.size(); ++k) {
        if (wants(k)) give(k, "Identity", {outputs[k]});
      }
      return;
    }
    const std::string_view direction = text(node_, "direction", "forward");
    const int64_t layout = integer(node_, "layout", 0) != 0 ? 1 : 0;
    if (direction == "bidirectional") {
      finish_layer({append_scan(layer(layout, 0, false)), append_scan(layer(layout, 1, true))}, layout);
    } else {
      finish_layer({append_scan(layer(layout, std::nullopt, direction == "reverse"))}, layout);
    }
  }

 private:
  using Outputs = std::vector<ValueId>;

  ValueId add(std::string_view what, std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    return append_node(graph_, fmt::format("{}/{}", node_.name, what), op, std::move(inputs), DType::kUndefined,
                       std::nullopt, std::move(attributes));
  }
  ValueId list(std::string_view what, const std::vector<int64_t>& values) {
    return add_integers(graph_, fmt::format("{}/{}", node_.name, what), values);
  }
  ValueId size_of(ValueId value, int64_t axis) {
    return add("size", "Shape", {value}, {{"start", axis}, {"end", axis + 1}});
  }
  ValueId zeros(DType type, const std::vector<ValueId>& sizes) {
    const ValueId zero = graph_.add_constant(node_.name + "/zero", TensorData::zeros(type, {}));
    return add("initial", "Expand", {zero, add("shape", "Concat", sizes, {{"axis", int64_t{0}}})});
  }
  /// The part of an operand that belongs to one direction, without their axis.
  ValueId part(ValueId operand, int64_t axis, int64_t direction) {
    return add("part", "Gather", {operand, scalar(direction)}, {{"axis", axis}});
  }
  ValueId scalar(int64_t value) {
    return graph_.add_constant(node_.name + "/number", TensorData::from_values<int64_t>(DType::kInt64, {}, {value}));
  }

  /// One direction of an LSTM, a GRU or an RNN: all of them, or one of two.
  Recurrence layer(int64_t layout, std::optional<int64_t> direction, bool reversed) {
    Recurrence r{.name = direction ? fmt::format("{}/{}", node_.name, reversed ? "reverse" : "forward") : node_.name,
                 .domain = "graft",
                 .op = node_.op + "Cell",
                 .attributes = node_.attributes,
                 .result_axis = layout,
                 .reversed = reversed,
                 .wants_result = wants(0)};
    keep_own_activations(r.attributes, direction);
    for (const std::string_view name : {"direction", "layout", "hidden_size"}) r.attributes.erase(std::string(name));
    const ValueId x = node_.inputs[0];
    const auto own = [&](size_t k, int64_t axis) { return part(node_.inputs[k], axis, direction.value_or(0)); };
    const ValueId w = add("turned_weights", "Transpose", {own(1, 0)}, {{"perm", std::vector<int64_t>{1, 0}}});
    r.scanned.push_back({.operand = 0, .whole = add("input_part", "MatMul", {x, w}), .axis = layout});
    r.fixed.emplace_back(1, own(2, 0));
    if (input(node_, 3) != kNoValue) r.fixed.emplace_back(2, own(3, 0));
    if (const ValueId lengths = input(node_, 4); lengths != kNoValue) {
      r.scanned.push_back({.operand = 3, .whole = remaining(x, lengths, layout), .axis = 0});
    }
    const size_t states = node_.op == "LSTM" ? 2 : 1;
    for (size_t k = 0; k < states; ++k) {
      r.states.emplace_back(4 + k, input(node_, 5 + k) != kNoValue ? own(5 + k, layout) : no_state(x, layout));
    }
    if (input(node_, 7) != kNoValue) r.fixed.emplace_back(6, own(7, 0));
    return r;
  }

  /// The attributes of one direction: its own half of the functions and of their parameters.
  void keep_own_activations(Attributes& attributes, std::optional<int64_t> direction) const {
    if (!direction) return;
    const auto given = attributes.find("activations");
    if (given == attributes.end()) return;
    auto& names = std::get<std::vector<std::string>>(given->second);
    const std::vector<std::string> all = names;
    const size_t half = all.size() / 2;
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(*direction == 0 ? 0 : half);
    names.assign(first, *direction == 0 ? all.begin() + static_cast<std::ptrdiff_t>(half) : all.end());
    for (const bool beta : {false, true}) {
      const char* attribute = beta ? "activation_beta" : "activation_alpha";
      const auto parameters = attributes.find(attribute);
      if (parameters == attributes.end()) continue;
      auto* values = std::get_if<std::vector<double>>(&parameters->second);
      if (!values) continue;
      const std::vector<std::string> before(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(half));
      const size_t taken = std::min(values->size(), activation_parameters(before, beta));
      const auto border = values->begin() + static_cast<std::ptrdiff_t>(taken);
      *values = *direction == 0 ? std::vector<double>(values->begin(), border)
                                : std::vector<double>(border, values->end());
    }
  }

  /// [position, sequence]: how many positions of the sequence are left there, as i32.
  ValueId remaining(ValueId x, ValueId lengths, int64_t layout) {
    const ValueId count = add("positions", "Squeeze", {size_of(x, layout), list("axis", {0})});
    const ValueId positions = add("position", "Range", {scalar(0), count, scalar(1)});
    const ValueId rows = add("rows", "Unsqueeze", {positions, list("axis", {1})});
    const auto cast = [&](std::string_view what, ValueId value, DType type) {
      return add(what, "Cast", {value}, {{"to", int64_t{onnx_code(type)}}});
    };
    return cast("left", add("difference", "Sub", {cast("lengths", lengths, DType::kInt64), rows}), DType::kInt32);
  }
  ValueId no_state(ValueId x, int64_t layout) {
    return zeros(graph_.value(x).type, {size_of(x, 1 - layout), size_of(node_.inputs[2], 2)});
  }

  Recurrence linear_attention() {
    Recurrence r{.name = node_.name, .domain = node_.domain, .op = node_.op, .attributes = node_.attributes,
                 .result_axis = 1, .keeps_result_axis = true, .wants_result = wants(0)};
    for (const size_t k : {0, 1, 2, 4, 5}) {
      if (const ValueId given = input(node_, k); given != kNoValue) r.scanned.push_back({k, given, 1, true});
    }
    const ValueId heads = list("heads", {integer(node_, "kv_num_heads", 1)});
    const auto per_head = [&](size_t k) { return add("per_head", "Div", {size_of(node_.inputs[k], 2), heads}); };
    ValueId state = input(node_, 3);
    if (state == kNoValue) {
      state = zeros(graph_.value(node_.inputs[0]).type, {size_of(node_.inputs[0], 0), heads, per_head(1), per_head(2)});
    }
    r.states.emplace_back(3, state);
    return r;
  }

  bool wants(size_t output) const { return output < node_.outputs.size() && node_.outputs[output] != kNoValue; }

  /// (states, elements, fixed) -> (states, result)
  std::shared_ptr<const Graph> body_of(const Recurrence& r) const {
    auto body = std::make_shared<Graph>();
    body->name = r.name;
    body->opsets = graph_.opsets;
    size_t last = 0;
    for (const auto& [operand, value] : r.states) last = std::max(last, operand);
    for (const auto& [operand, value] : r.fixed) last = std::max(last, operand);
    for (const Scanned& s : r.scanned) last = std::max(last, s.operand);
    Node cell{.name = node_.name, .domain = r.domain, .op = r.op, .attributes = r.attributes};
    cell.inputs.assign(last + 1, kNoValue);
    const auto take = [&](std::string_view name) {
      const ValueId value = body->add_value(name, DType::kUndefined);
      body->inputs.push_back(value);
      return value;
    };
    const auto axis_of = [&](int64_t axis) { return add_integers(*body, "axis", {axis}); };
    for (const auto& [operand, value] : r.states) cell.inputs[operand] = take("state");
    for (const Scanned& s : r.scanned) {
      const ValueId element = take("element");
      cell.inputs[s.operand] = !s.keeps_axis ? element
                                             : append_node(*body, node_.name + "/element", "Unsqueeze",
                                                           {element, axis_of(s.axis)}, DType::kUndefined, std::nullopt);
    }
    for (const auto& [operand, value] : r.fixed) cell.inputs[operand] = take("fixed");
    const bool shows_state = !r.keeps_result_axis && cell.inputs.size() > 3 && cell.inputs[3] == kNoValue;
    ValueId shown = r.wants_result && !shows_state ? body->add_value("result", DType::kUndefined) : kNoValue;
    cell.outputs = {shown};
    for (size_t k = 0; k < r.states.size(); ++k) {
      cell.outputs.push_back(body->add_value("next_state", DType::kUndefined));
      body->outputs.push_back(cell.outputs.back());
    }
    if (shows_state) shown = cell.outputs[1];
    body->add_node(std::move(cell));
    if (r.wants_result) {
      if (r.keeps_result_axis) {
        shown = append_node(*body, node_.name + "/shown", "Squeeze", {shown, axis_of(r.result_axis)},
                            DType::kUndefined, std::nullopt);
      }
      body->outputs.push_back(shown);
    }
    return body;
  }

  /// The Scan's outputs in the order of the operator's: the result (or kNoValue), then the last states.
  Outputs append_scan(const Recurrence& r) {
    Node scan{.name = r.name, .domain = "", .op = "Scan"};
    const std::vector<int64_t> turned(1, r.reversed ? 1 : 0);
    for (const auto& [operand, value] : r.states) scan.inputs.push_back(value);
    std::vector<int64_t> axes;
    for (const Scanned& s : r.scanned) {
      scan.inputs.push_back(s.whole);
      axes.push_back(s.axis);
    }
    for (const auto& [operand, value] : r.fixed) scan.inputs.push_back(value);
    scan.attributes["body"] = body_of(r);
    scan.attributes["captures"] = std::vector<int64_t>{static_cast<int64_t>(r.fixed.size())};
    scan.attributes["num_scan_inputs"] = static_cast<int64_t>(r.scanned.size());
    scan.attributes["scan_input_axes"] = axes;
    scan.attributes["scan_input_directions"] = std::vector<int64_t>(axes.size(), r.reversed ? 1 : 0);
    Outputs outputs = {kNoValue};
    for (size_t k = 0; k < r.states.size(); ++k) {
      outputs.push_back(graph_.add_value(r.name + "/last_state", DType::kUndefined));
      scan.outputs.push_back(outputs.back());
    }
    if (r.wants_result) {
      outputs[0] = graph_.add_value(r.name + "/result", DType::kUndefined);
      scan.outputs.push_back(outputs[0]);
      scan.attributes["scan_output_directions"] = turned;
    }
    graph_.add_node(std::move(scan));
    if (r.wants_result && r.result_axis == 1) {  // collected along the first: [position, sequence, element]
      outputs[0] = add("turned_result", "Transpose", {outputs[0]}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
    }
    return outputs;
  }

  /// The node's outputs become those of its directions, along an axis of their own.
  void finish_layer(const std::vector<Outputs>& directions, int64_t layout) {
    for (size_t k = 0; k < node_.outputs.size(); ++k) {
      if (!wants(k)) continue;
      const int64_t axis = k == 0 ? layout + 1 : layout;
      Outputs parts;
      for (const Outputs& outputs : directions) {
        parts.push_back(add("part", "Unsqueeze", {outputs[k], list("axis", {axis})}));
      }
      give(k, parts.size() == 1 ? "Identity" : "Concat", parts, axis);
    }
  }
  void give(size_t output, std::string_view op, Outputs inputs, int64_t axis = 0) {
    Node node{.name = fmt::format("{}/output", node_.name), .domain = "", .op = std::string(op)};
    node.inputs = std::move(inputs);
    if (op == "Concat") node.attributes["axis"] = axis;
    node.outputs = {node_.outputs[output]};
    graph_.nodes[static_cast<size_t>(index_)].outputs[output] = kNoValue;
    graph_.add_node(std::move(node));
  }

  Graph& graph_;
  int index_;
  const Node node_;  ///< as it was
};

/// Whether the node is a recurrence whose positions are not written out one by one.
bool is_open_recurrence(const Graph& graph, const Node& node) {
  if (!is_op(node, {"LSTM", "GRU", "RNN", "LinearAttention"}) || input_count(node) < 3) return false;
  if (rank_of(graph, node.inputs[0]) != 3 || graph.value(node.inputs[0]).type == DType::kUndefined) return false;
  const size_t axis = node.op == "LinearAttention" || integer(node, "layout", 0) != 0 ? 1 : 0;
  return !is_unrolled((*graph.value(node.inputs[0]).shape)[axis]);
}

bool lower_nodes(Graph& graph) {
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_open_recurrence(graph, graph.nodes[i])) continue;
    RecurrenceLowering(graph, static_cast<int>(i)).run();
    graph.sort_nodes();
    sweep(graph);
    infer_types(graph);  // the next layer's input
    changed = true;
    i = 0;
  }
  return changed;
}

}  // namespace

bool lower_recurrence(Graph& graph, const PassContext&) { return rewrite_with_bodies(graph, lower_nodes); }

}  // namespace graft::passes
