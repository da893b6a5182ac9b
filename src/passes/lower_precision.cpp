// SPDX-License-Identifier: Apache-2.0
// op(x) -> Cast(op(Cast(x))) where the operator's rule says so, with types carried from node to node so that casts
// stand only where they change: f32 inputs are cast once, weights now, outputs and what stays f32 are cast back.
#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "amp/narrowing.h"
#include "base/error.h"
#include "graph/infer.h"
#include "passes/edit.h"
#include "passes/node_behaviour.h"
#include "passes/passes.h"
#include "passes/precision_rules.h"

namespace graft::passes {
namespace {

constexpr std::string_view kPass = "lower_precision";

/// Integers of at most 8 bits and truths are exact in both low types.
bool is_exact_in_low(DType type) {
  return type == DType::kBool || ((is_integer(type) || is_unsigned(type)) && bit_width(type) <= 8);
}

/// What undoes an attempt at a node: what inference overwrites.
struct Snapshot {
  Node node;
  std::vector<Value> outputs;
};

class PrecisionLowering {
 public:
  PrecisionLowering(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), low_type_(context.low_type), forms_(graph.values.size()),
        consumers_(graph.consumers()) {
    for (size_t id = 0; id < forms_.size(); ++id) {
      const Value& value = graph_.values[id];
      if (value.type != DType::kFloat32 || !value.dynamic_type.empty()) continue;
      forms_[id].is_float = true;
      forms_[id].wide = static_cast<ValueId>(id);
      forms_[id].is_flexible = value.constant.has_value();
    }
    for (const ValueId input : graph_.inputs) forms_[input].is_flexible = forms_[input].is_float;
  }

  bool run() {
    bool changed = false;
    const int count = static_cast<int>(graph_.nodes.size());
    for (int i = 0; i < count; ++i) changed |= lower_node(i);
    if (!changed) return false;
    graph_.sort_nodes();
    sweep(graph_);
    return true;
  }

 private:
  /// A float value of the network and what it is read as.
  struct Forms {
    bool is_float = false;     ///< f32 before the pass
    bool is_flexible = false;  ///< an input or a constant: either type at no loss of the node's own
    bool is_low = false;       ///< computed in the low type
    bool is_odd = false;       ///< a constant that does not fit the low type
    ValueId low = kNoValue, wide = kNoValue;
  };

  bool lower_node(int index) {
    const bool has_bodies = has_subgraph(graph_.nodes[index]);
    if (!has_bodies && wants_low(index) && try_low(index)) return true;
    widen(index);
    const Node& node = graph_.nodes[index];
    if (is_op(node, {"DequantizeLinear"}) && forms_of(node.outputs[0]).is_float) {
      forms_[node.outputs[0]].is_flexible = !ends_in_quantizers(node.outputs[0]);
    }
    return has_bodies && lower_bodies(index);
  }

  /// Whether the rule, the node's inputs and its form let it compute in the low type.
  bool wants_low(int index) const {
    const Node& node = graph_.nodes[index];
    const PrecisionRow* row = find_precision_row(node);
    if (!row) {
      context_.left(kPass, node, "no definition says how it behaves in a lower precision");
      return false;
    }
    if (row->rule == PrecisionRule::kWide || is_square(node) || updates_in_place(node)) return false;
    if (is_op(node, {"Cast"})) return widens_exactly(node);
    if (is_op(node, {"ConstantOfShape"})) return forms_of(node.outputs[0]).is_float;
    if (!touches_floats(node, *row)) return false;
    if (row->rule == PrecisionRule::kLow) return true;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (row->keeps(i)) continue;
      const Forms forms = forms_of(node.inputs[i]);
      if (forms.is_float && !forms.is_low && !forms.is_flexible) return false;
    }
    return true;
  }

  /// Whether all that comes of a value, element by element, is rounded by quantizers next, as between two layers of a
  /// quantized network: it stays f32, as the quantizers' own definition has it; else it is rounded as any other value.
  bool ends_in_quantizers(ValueId value) {
    const auto [known, is_new] = ends_in_quantizers_.try_emplace(value, false);
    if (!is_new) return known->second;
    bool all = !graph_.is_output(value) && !consumers_[value].empty();
    for (const int reader : consumers_[value]) {
      const Node& node = graph_.nodes[reader];
      if (is_op(node, {"QuantizeLinear"})) continue;
      all = all && is_elementwise(graph_, node) && ends_in_quantizers(node.outputs[0]);
    }
    return ends_in_quantizers_[value] = all;
  }

  Forms forms_of(ValueId id) const {
    return id == kNoValue || id >= static_cast<ValueId>(forms_.size()) ? Forms{} : forms_[id];
  }

  bool touches_floats(const Node& node, const PrecisionRow& row) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!row.keeps(i) && forms_of(node.inputs[i]).is_float) return true;
    }
    return false;
  }

  /// x * x, whose sum is a variance, leaves the range of f16 from 256 on.
  static bool is_square(const Node& node) { return is_op(node, {"Mul"}) && node.inputs[0] == node.inputs[1]; }

  /// Scatters that add to or multiply what is in memory round at each step.
  static bool updates_in_place(const Node& node) {
    if (!is_op(node, {"ScatterElements", "ScatterND"})) return false;
    const std::string_view reduction = text(node, "reduction", "none");
    return reduction == "add" || reduction == "mul";
  }

  /// Cast(truth or byte to f32) -> Cast(to the low type)
  bool widens_exactly(const Node& node) const {
    return forms_of(node.outputs[0]).is_float && is_exact_in_low(graph_.value(node.inputs[0]).type);
  }

  /// Gives the node low inputs and asks its definition; as it was when that refuses.
  bool try_low(int index) {
    const Snapshot before = snapshot(index);
    const std::string fault = take_low_inputs(index);
    if (fault.empty()) retype_attributes(index);
    const std::string refusal = fault.empty() ? infer_fault(index) : fault;
    if (!refusal.empty()) {
      restore(index, before);
      context_.left(kPass, graph_.nodes[index], "stays f32: " + refusal);
      return false;
    }
    if (!odd_.empty()) context_.left(kPass, before.node, "reads f32: " + odd_);
    bool lowered = false;
    for (size_t k = 0; k < graph_.nodes[index].outputs.size(); ++k) lowered |= record_output(index, k);
    return lowered || graph_.nodes[index].inputs != before.node.inputs;
  }

  Snapshot snapshot(int index) const {
    Snapshot result{graph_.nodes[index], {}};
    for (const ValueId id : graph_.nodes[index].outputs) {
      result.outputs.push_back(id == kNoValue ? Value() : graph_.value(id));
    }
    return result;
  }

  void restore(int index, const Snapshot& before) {
    graph_.nodes[index].inputs = before.node.inputs;
    graph_.nodes[index].attributes = before.node.attributes;
    for (size_t k = 0; k < before.outputs.size(); ++k) {
      const ValueId id = before.node.outputs[k];
      if (id == kNoValue) continue;
      graph_.value(id).type = before.outputs[k].type;
      graph_.value(id).shape = before.outputs[k].shape;
      graph_.value(id).content = before.outputs[k].content;
    }
  }

  /// A constant that does not fit is offered as it is. Returns why it does not fit, when there is no other float input
  /// to be low.
  std::string take_low_inputs(int index) {
    const PrecisionRow* row = find_precision_row(graph_.nodes[index]);
    std::string odd;
    bool any = graph_.nodes[index].inputs.empty();
    for (size_t i = 0; i < graph_.nodes[index].inputs.size(); ++i) {
      const ValueId id = graph_.nodes[index].inputs[i];
      const Forms forms = forms_of(id);
      const bool takes = forms.is_float && !row->keeps(i);
      ValueId chosen = natural_form(id);
      if (takes) {
        const std::string fault = constant_fault(id);
        if (fault.empty()) chosen = low_form(id);
        if (!fault.empty()) odd = fault;
        any |= fault.empty();
      }
      any |= !forms.is_float;
      graph_.nodes[index].inputs[i] = chosen;
    }
    odd_ = odd;
    return any ? "" : odd;
  }

  /// Why a constant does not fit the low type.
  std::string constant_fault(ValueId id) {
    const TensorData* data = constant_of(graph_, id);
    if (!data || forms_[id].low != kNoValue) return "";
    const auto [known, is_new] = faults_.try_emplace(id);
    if (is_new) known->second = amp::conversion_fault(*data, low_type_);
    return known->second;
  }

  /// The value as its producer gives it.
  ValueId natural_form(ValueId id) const {
    const Forms forms = forms_of(id);
    return forms.is_low ? forms.low : id;
  }

  ValueId low_form(ValueId id) {
    if (forms_[id].low != kNoValue) return forms_[id].low;
    const std::string name = fmt::format("{}/{}", graph_.value(id).name, name_of(low_type_));
    const TensorData* data = constant_of(graph_, id);
    const ValueId low = data ? graph_.add_constant(name, amp::converted(*data, low_type_)) : cast(id, name, low_type_);
    forms_[id].low = low;
    return low;
  }

  ValueId wide_form(ValueId id) {
    const Forms forms = forms_of(id);
    if (!forms.is_low) return id;
    if (forms.wide == kNoValue) {
      const ValueId low = forms.low;
      forms_[id].wide = cast(low, graph_.value(low).name + "/f32", DType::kFloat32);
    }
    return forms_[id].wide;
  }

  ValueId cast(ValueId id, const std::string& name, DType type) {
    const std::optional<Shape> shape = graph_.value(id).shape;
    return append_node(graph_, name, "Cast", {id}, type, shape, {{"to", int64_t{onnx_code(type)}}});
  }

  /// Types that attributes state.
  void retype_attributes(int index) {
    Node& node = graph_.nodes[index];
    if (is_op(node, {"Cast"})) node.attributes["to"] = int64_t{onnx_code(low_type_)};
    if (!is_op(node, {"ConstantOfShape"})) return;
    const auto value = node.attributes.find("value");
    const bool given = value != node.attributes.end() && std::holds_alternative<TensorData>(value->second);
    const TensorData fill = given ? std::get<TensorData>(value->second) : TensorData::zeros(DType::kFloat32, {1});
    odd_ = amp::conversion_fault(fill, low_type_);
    if (odd_.empty()) node.attributes["value"] = amp::converted(fill, low_type_);
  }

  /// Why the definition refuses the node's new inputs.
  std::string infer_fault(int index) {
    try {
      const bool taken = !infer_node(graph_, index);
      return taken ? "" : refusal("its definition does not take " + std::string(name_of(low_type_)));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInvalidModel && error.kind() != ErrorKind::kUnsupported) throw;
      return refusal(error.message());
    }
  }

  std::string refusal(const std::string& otherwise) const { return odd_.empty() ? otherwise : odd_; }

  /// Notes the type that output k has now; an output of the graph gets its type back.
  bool record_output(int index, size_t k) {
    const ValueId id = graph_.nodes[index].outputs[k];
    if (id == kNoValue || !forms_[id].is_float || graph_.value(id).type != low_type_) return false;
    forms_[id] = {.is_float = true, .is_low = true, .low = id, .wide = kNoValue};
    if (!graph_.is_output(id)) return true;
    const std::optional<Shape> shape = graph_.value(id).shape;
    const std::string name = graph_.value(id).name;
    const ValueId low = graph_.add_value(fmt::format("{}/{}", name, name_of(low_type_)), low_type_, shape);
    graph_.value(low).producer = index;
    graph_.nodes[index].outputs[k] = low;
    Node back{.name = name + "/f32", .op = "Cast", .attributes = {{"to", int64_t{onnx_code(DType::kFloat32)}}}};
    back.inputs = {low};
    back.outputs = {id};
    graph_.value(id).type = DType::kFloat32;
    graph_.add_node(std::move(back));
    forms_[id].low = low;
    forms_[id].wide = id;
    return true;
  }

  /// What stays f32 reads f32.
  void widen(int index) {
    const PrecisionRow* row = find_precision_row(graph_.nodes[index]);
    const bool follows = row && row->rule == PrecisionRule::kFollow;
    const bool reads_any = follows && is_op(graph_.nodes[index], {"Cast", "Shape", "Size"});
    for (size_t i = 0; i < graph_.nodes[index].inputs.size(); ++i) {
      const ValueId id = graph_.nodes[index].inputs[i];
      if (!forms_of(id).is_low) continue;
      const ValueId form = reads_any ? natural_form(id) : wide_form(id);
      graph_.nodes[index].inputs[i] = form;
    }
  }

  /// Bodies are networks of their own, whose inputs and outputs keep their types.
  bool lower_bodies(int index) {
    bool changed = false;
    for (auto& [name, attribute] : graph_.nodes[index].attributes) {
      const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute);
      if (!body) continue;
      Graph copy = **body;
      infer_types(copy);
      if (!lower_precision(copy, context_)) continue;
      infer_types(copy);
      attribute = std::make_shared<const Graph>(std::move(copy));
      changed = true;
    }
    return changed;
  }

  Graph& graph_;
  const PassContext& context_;
  const DType low_type_;
  std::vector<Forms> forms_;               ///< by value of the graph as it was
  const std::vector<std::vector<int>> consumers_;  ///< the same
  std::map<ValueId, bool> ends_in_quantizers_;     ///< what is known of it
  std::map<ValueId, std::string> faults_;  ///< by constant: why it does not fit, or an empty text
  std::string odd_;                        ///< why a constant of the node at hand does not fit
};

}  // namespace

bool lower_precision(Graph& graph, const PassContext& context) {
  if (context.low_type == DType::kUndefined) return false;
  Graph lowered = graph;
  if (!PrecisionLowering(lowered, context).run()) return false;
  graph = std::move(lowered);
  return true;
}

}  // namespace graft::passes
