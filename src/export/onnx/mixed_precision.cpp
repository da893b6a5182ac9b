// SPDX-License-Identifier: Apache-2.0
// A model file of f32 as one of mixed precision: Cast nodes where amp/mixed_precision.h decides.
#include "amp/mixed_precision.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "amp/narrowing.h"
#include "amp/request.h"
#include "base/error.h"
#include "base/free_name.h"
#include "export/onnx/model_contents.h"
#include "export/onnx/opsets.h"
#include "export/onnx/write_tensor.h"
#include "import/onnx/import_tensor.h"

namespace graft {
namespace {

using graft_onnx::AttributeProto;
using graft_onnx::GraphProto;
using graft_onnx::ModelProto;
using graft_onnx::NodeProto;
using graft_onnx::TypeProto;

/// Stands for what is no tensor of floats, and for an input that is left out.
constexpr DType kNoFloat = DType::kString;

/// Operators whose results are of a type of their own, whatever they read.
const std::set<std::string_view> kOwnTypes = {
    "Cast",          "CastLike",          "BitCast",        "ConstantOfShape", "EyeLike",          "Range",
    "RandomNormal",  "RandomNormalLike",  "RandomUniform",  "RandomUniformLike", "Bernoulli",      "Multinomial",
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "HannWindow", "HammingWindow", "BlackmanWindow",
    "MelWeightMatrix", "Constant"};

int64_t opset_of(const ModelProto& model) {
  for (const auto& import : model.opset_import()) {
    if (import.domain().empty() || import.domain() == "ai.onnx") return import.version();
  }
  return 1;
}

bool has_bodies(const NodeProto& node) {
  return std::ranges::any_of(node.attribute(), [](const auto& each) { return each.has_g() || each.graphs_size() > 0; });
}

/// `domain.Op` outside of ONNX's own domain.
std::string operator_name(const NodeProto& node) {
  const bool own = node.domain().empty() || node.domain() == "ai.onnx";
  return own ? node.op_type() : node.domain() + "." + node.op_type();
}

/// Inputs that ONNX lets have a type of their own, and that a low one would hurt: statistics, masks, positions.
uint64_t kept_inputs(const std::string& op) {
  if (op == "BatchNormalization") return 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4;
  if (op == "Attention") return 1 << 3;
  if (op == "Resize") return 1 << 1 | 1 << 2;
  if (op == "Dropout" || op == "GridSample" || op == "RMSNormalization") return 1 << 1;
  return 0;
}

/// Whether an operator has to be f32 for another reason than its rule: ONNX lacks the low type for it, or lets its
/// statistics or positions have no type of their own; or it is a square, whose sum is a variance.
bool needs_f32(const NodeProto& node, const std::string& op, int64_t opset, DType low) {
  if (low == DType::kBFloat16 && !takes_bfloat16(op, opset)) return true;
  if (op == "BatchNormalization") return opset < 15;
  if (op == "IsInf") return opset < 20;
  if (op == "Celu" || op == "RoiAlign") return true;
  return op == "Mul" && node.input_size() == 2 && node.input(0) == node.input(1);
}

/// What the file's graph is as an abstract one, by the names of its values.
class View {
 public:
  View(const ModelProto& model, const std::map<std::string, TypeProto, std::less<>>& types,
       const std::map<std::string, TensorData, std::less<>>& weights, const std::vector<ModelNode>& nodes, DType low)
      : opset_(opset_of(model)), low_(low), types_(types) {
    std::set<std::string, std::less<>> inputs;
    for (const auto& input : model.graph().input()) inputs.insert(input.name());
    none_ = add("", kNoFloat);
    for (const auto& input : model.graph().input()) add(input.name(), type_of(input.name(), input.type()));
    for (const auto& [name, weight] : weights) {
      if (!inputs.contains(name)) add_parameter(name, weight);
    }
    for (int i = 0; i < model.graph().node_size(); ++i) add_node(model.graph().node(i), nodes[i]);
    for (const auto& output : model.graph().output()) graph.outputs.push_back(value(output.name()));
  }

  int value(const std::string& name) {
    if (name.empty()) return none_;
    const auto known = index_.find(name);
    return known == index_.end() ? add(name, kNoFloat) : known->second;
  }

  amp::Graph graph;
  std::map<int, TensorData> contents;  ///< of parameters

 private:
  static DType float_or_none(int code) {
    const DType type = dtype_from_onnx(code).value_or(kNoFloat);
    return type == DType::kUndefined ? kNoFloat : type;
  }

  DType type_of(const std::string& name, const TypeProto& stated) const {
    const auto known = types_.find(name);
    const TypeProto& type = known == types_.end() ? stated : known->second;
    return type.has_tensor_type() ? float_or_none(type.tensor_type().elem_type()) : kNoFloat;
  }

  int add(const std::string& name, DType type) {
    const int id = static_cast<int>(graph.values.size());
    graph.values.push_back({.name = name, .type = type});
    index_[name] = id;
    return id;
  }

  void add_parameter(const std::string& name, const TensorData& data) {
    const int id = add(name, data.type());
    graph.values[id].is_parameter = true;
    contents[id] = data;
  }

  void add_node(const NodeProto& proto, const ModelNode& facts) {
    const std::string op = operator_name(proto);
    if (op == "Constant" && proto.output_size() == 1 && proto.attribute_size() == 1 && proto.attribute(0).has_t()) {
      NodeProto copy = proto;  // the importer takes the bytes
      auto& tensor = *copy.mutable_attribute(0)->mutable_t();
      TensorImporter importer("", tensor.ByteSizeLong());
      return add_parameter(proto.output(0), importer.import(tensor, fmt::format("node '{}'", facts.name)));
    }
    amp::Node node{.op = op, .name = facts.name, .kept = kept_inputs(op)};
    if (has_bodies(proto) || needs_f32(proto, op, opset_, low_)) node.kind = amp::NodeKind::kClosed;
    for (const AttributeProto& attribute : proto.attribute()) {
      if (attribute.type() == AttributeProto::STRING) node.attributes[attribute.name()] = attribute.s();
      if (attribute.type() == AttributeProto::INT) node.attributes[attribute.name()] = std::to_string(attribute.i());
    }
    for (const std::string& name : proto.input()) node.inputs.push_back(value(name));
    size_t own = 0;  // what bodies read comes behind the inputs that are not left out
    for (const std::string& name : proto.input()) own += name.empty() ? 0 : 1;
    for (size_t i = own; i < facts.inputs.size(); ++i) node.inputs.push_back(value(facts.inputs[i]));
    for (const std::string& name : proto.output()) {
      const DType type = name.empty() ? kNoFloat : type_of(name, {});
      node.outputs.push_back(add(name.empty() ? facts.name + "/none" : name, type));
      const bool follows = is_narrow(type) && !kOwnTypes.contains(op) && reads(node, type);
      node.results.push_back(follows ? std::nullopt : std::optional(type));
    }
    graph.nodes.push_back(std::move(node));
  }

  static bool is_narrow(DType type) {
    return type == DType::kFloat32 || type == DType::kFloat16 || type == DType::kBFloat16;
  }

  bool reads(const amp::Node& node, DType type) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.keeps(i) && graph.values[node.inputs[i]].type == type) return true;
    }
    return false;
  }

  int64_t opset_;
  DType low_;
  const std::map<std::string, TypeProto, std::less<>>& types_;
  std::map<std::string, int, std::less<>> index_;
  int none_ = 0;
};

/// Puts the casts of a decision into the model's messages.
class Applying {
 public:
  Applying(ModelProto& model, View& view, const amp::Decision& decision, DType low)
      : model_(model), view_(view), decision_(decision), low_(low) {
    for (const amp::Value& value : view.graph.values) names_.insert(value.name);
    for (const amp::Node& node : view.graph.nodes) names_.insert(node.name);
    for (const amp::Value& value : view.graph.values) name_of_.push_back(value.name);
    for (const amp::Cast& cast : decision.casts) name_cast(cast);
  }

  void run() {
    GraphProto old;
    old.mutable_node()->Swap(model_.mutable_graph()->mutable_node());
    for (size_t cast = 0; cast < decision_.casts.size(); ++cast) casts_of_[decision_.casts[cast].value].push_back(cast);
    std::set<int> computed;  // by a node of the file; what is not comes first
    for (const amp::Node& node : view_.graph.nodes) computed.insert(node.outputs.begin(), node.outputs.end());
    for (const NodeProto& node : old.node()) {
      if (node.op_type() == "Constant" && node.output_size() == 1) computed.insert(view_.value(node.output(0)));
    }
    for (const auto& [value, casts] : casts_of_) {
      if (!computed.contains(value)) add_casts(value);
    }
    size_t next = 0;
    for (NodeProto& node : *old.mutable_node()) {
      const int constant = node.op_type() == "Constant" && node.output_size() == 1 ? view_.value(node.output(0)) : -1;
      if (view_.contents.contains(constant)) {
        add_constant(node, constant);
      } else {
        add_node(node, next++);
      }
    }
    retype();
  }

  /// By the names that the values have now.
  std::map<std::string, DType> low_values() const {
    std::map<std::string, DType> result;
    for (size_t id = 0; id < name_of_.size(); ++id) {
      if (became_low(static_cast<int>(id))) result[name_of_[id]] = low_;
    }
    return result;
  }

 private:
  bool became_low(int value) const {
    return view_.graph.values[value].type == DType::kFloat32 && decision_.types[value] == low_;
  }

  /// Who reads a result that became low as f32, outputs of the graph and bodies among them, finds it under its name.
  void name_cast(const amp::Cast& cast) {
    const std::string& name = view_.graph.values[cast.value].name;
    const std::string_view type = name_of(cast.type == low_ ? cast.type : low_);
    const std::string other = take_free_name(fmt::format("{}/{}", name, type), names_);
    const bool back = became_low(cast.value) && cast.type == DType::kFloat32;
    cast_names_.push_back(back ? name : other);
    if (back) name_of_[cast.value] = other;
  }

  void add_casts(int value) {
    const auto casts = casts_of_.find(value);
    if (casts == casts_of_.end()) return;
    for (const size_t cast : casts->second) {
      NodeProto& node = *model_.mutable_graph()->add_node();
      node.set_op_type("Cast");
      node.set_name(take_free_name(cast_names_[cast] + "/cast", names_));
      node.add_input(name_of_[value]);
      node.add_output(cast_names_[cast]);
      AttributeProto& to = *node.add_attribute();
      to.set_name("to");
      to.set_type(AttributeProto::INT);
      to.set_i(onnx_code(decision_.casts[cast].type));
    }
  }

  void add_constant(NodeProto& node, int value) {
    if (became_low(value)) {
      auto& tensor = *node.mutable_attribute(0)->mutable_t();
      const std::string name = tensor.name();
      tensor.Clear();
      tensor.set_name(name);
      TensorWriter().write(amp::converted(view_.contents.at(value), low_), TensorPlace::kInside, tensor);
    }
    model_.mutable_graph()->add_node()->Swap(&node);
    add_casts(value);
  }

  void add_node(NodeProto& node, size_t index) {
    const std::vector<amp::Reading>& readings = decision_.readings[index];
    for (int i = 0; i < node.input_size(); ++i) {
      const amp::Reading& reading = readings[i];
      node.set_input(i, reading.cast >= 0 ? cast_names_[reading.cast] : name_of_[reading.value]);
    }
    const std::vector<int> outputs = view_.graph.nodes[index].outputs;
    for (int i = 0; i < node.output_size(); ++i) {
      if (!node.output(i).empty()) node.set_output(i, name_of_[outputs[i]]);
    }
    model_.mutable_graph()->add_node()->Swap(&node);
    for (const int output : outputs) add_casts(output);
  }

  /// The types that the graph states of its values.
  void retype() {
    const std::map<std::string, DType> low = low_values();
    for (auto& info : *model_.mutable_graph()->mutable_value_info()) {
      if (low.contains(info.name())) info.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_code(low_));
    }
  }

  ModelProto& model_;
  View& view_;
  const amp::Decision& decision_;
  DType low_;
  std::set<std::string> names_;
  std::vector<std::string> name_of_;     ///< by value
  std::vector<std::string> cast_names_;  ///< by cast
  std::map<int, std::vector<size_t>> casts_of_;
};

}  // namespace

ModelFile ModelFile::mixed(const amp::Request& request, const amp::DefaultLists& lists, MixedReport& report) const {
  constexpr int64_t kFirstWithBfloat16 = 13;
  const int64_t opset = opset_of(contents_->model);
  GRAFT_USER_CHECK(request.low == DType::kFloat16 || opset >= kFirstWithBfloat16, kUnsupported,
                   fmt::format("ONNX has bf16 from opset {} on, and the model is of opset {}: export it for a newer "
                               "one", kFirstWithBfloat16, opset), "--precision");
  GRAFT_USER_CHECK(contents_->why_no_types.empty(), kUnsupported,
                   "the types of its tensors are not known: " + contents_->why_no_types, "model");
  GRAFT_USER_CHECK(!request.data_names && request.input_types.empty(), kInvalidArgument,
                   "an ONNX model says itself what its inputs are: leave out data_names and input_dtypes", "lists");
  auto changed = std::make_shared<Contents>(*contents_);
  View view(contents_->model, *contents_->types, contents_->weights, contents_->nodes, request.low);
  const amp::Rules rules(lists, request.lists, view.graph);
  amp::Options options{.low = request.low, .convert_parameters = request.convert_parameters};
  options.why_not = [&](int value) { return amp::conversion_fault(view.contents.at(value), request.low); };
  const amp::Decision decision = amp::decide(view.graph, rules, options);
  Applying applying(changed->model, view, decision, request.low);
  applying.run();
  for (const auto& [value, data] : view.contents) {
    if (data.type() != DType::kFloat32) continue;
    const std::string& name = view.graph.values[value].name;
    report.parameters[name] = decision.types[value];
    const auto weight = changed->weights.find(name);
    if (weight != changed->weights.end() && decision.types[value] == request.low) {
      weight->second = amp::converted(data, request.low);
    }
  }
  report.casts = static_cast<int>(decision.casts.size());
  auto types = std::make_shared<Contents::Types>(*contents_->types);
  for (const auto& [name, type] : applying.low_values()) {
    const auto known = types->find(name);
    if (known != types->end()) known->second.mutable_tensor_type()->set_elem_type(onnx_code(type));
  }
  changed->types = std::move(types);
  changed->index();
  return ModelFile(std::move(changed));
}

}  // namespace graft
