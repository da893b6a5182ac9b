// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/import_graph.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/custom_operator.h"
#include "graph/bodies.h"
#include "graph/infer.h"
#include "import/onnx/contrib_blocked.h"
#include "import/onnx/contrib_operators.h"
#include "import/onnx/convert_opset.h"
#include "import/onnx/declared_ranks.h"
#include "import/onnx/onnx.pb.h"
#include "import/onnx/overridable.h"
#include "import/onnx/read_model.h"

namespace graft {

using graft_onnx::AttributeProto;
using graft_onnx::FunctionProto;
using graft_onnx::GraphProto;
using graft_onnx::ModelProto;
using graft_onnx::NodeProto;
using graft_onnx::TypeProto;

/// What names mean at one place of a model: in a graph, in a subgraph of it, or in the body of a function, which adds
/// its nodes to the graph of its caller.
struct ImportScope {
  Graph* graph = nullptr;
  ImportScope* outer = nullptr;  ///< of a subgraph: the scope around it
  std::string prefix;            ///< of the names that a function's body adds
  const std::map<std::string, int64_t>* opsets = nullptr;
  std::map<std::string, ValueId, std::less<>> names;
  std::set<std::string, std::less<>> promised;  ///< outputs of a function: bound already, defined by its body
  std::vector<ValueId> captured;                ///< values of the outer scope, one per extra input of the graph
  std::map<std::string, const TypeProto*, std::less<>> hints;

  /// An attribute of the call that a function's body refers to, and the scope it was written in.
  struct Binding {
    AttributeProto* proto;
    ImportScope* scope;
  };
  const std::map<std::string, Binding, std::less<>>* attributes = nullptr;
};

namespace {

constexpr size_t kDeepestCall = 64;
constexpr int64_t kInlinedNodes = 100000;  // and as many again as the file has, times kInlineGrowth
constexpr int64_t kInlineGrowth = 64;

[[noreturn]] void fail(const std::string& message, const std::string& where) {
  throw Error(ErrorKind::kInvalidModel, message, where);
}

std::string normal_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

std::string describe_node(const NodeProto& proto) {
  if (!proto.name().empty()) return fmt::format("node '{}' ({})", proto.name(), proto.op_type());
  const std::string output = proto.output_size() ? proto.output(0) : "";
  return fmt::format("node that gives '{}' ({})", output, proto.op_type());
}

std::string function_key(const std::string& domain, const std::string& name, const std::string& overload) {
  return fmt::format("{}::{}:{}", normal_domain(domain), name, overload);
}

/// The value behind a name, captured from an outer scope where need be; nothing when it is unknown.
std::optional<ValueId> find(ImportScope& scope, const std::string& name) {
  const auto it = scope.names.find(name);
  if (it != scope.names.end()) {
    if (scope.promised.count(name)) return std::nullopt;
    return it->second;
  }
  if (!scope.outer) return std::nullopt;
  const auto outer = find(*scope.outer, name);
  if (!outer || *outer == kNoValue) return outer;
  const Value& value = scope.outer->graph->value(*outer);
  ValueId inner = kNoValue;
  if (value.constant) {
    inner = scope.graph->add_constant(value.name, *value.constant);
  } else {
    inner = scope.graph->add_value(value.name, value.type, value.shape);
    scope.graph->value(inner).content = value.content;
    scope.graph->value(inner).dynamic_type = value.dynamic_type;
    scope.graph->inputs.push_back(inner);
    scope.captured.push_back(*outer);
  }
  scope.names[name] = inner;
  return inner;
}

/// A new value for a name that a node defines.
ValueId define(ImportScope& scope, const std::string& name, const std::string& where) {
  if (name.empty()) return kNoValue;
  const auto it = scope.names.find(name);
  if (it != scope.names.end()) {
    if (scope.promised.erase(name)) return it->second;
    fail(fmt::format("the value '{}' is defined a second time; each value has one source", name), where);
  }
  const ValueId id = scope.graph->add_value(scope.prefix + name, DType::kUndefined);
  scope.names.emplace(name, id);
  return id;
}

ValueId find_input(ImportScope& scope, const std::string& name, const std::string& where) {
  if (name.empty()) return kNoValue;
  const auto id = find(scope, name);
  if (!id) {
    fail(fmt::format("it reads '{}', which is no input, no initializer and no result of another node", name), where);
  }
  return *id;
}

/// Gives a value exactly the name that the model's interface has for it.
void claim_name(Graph& graph, ValueId id, const std::string& name) {
  if (graph.value(id).name == name) return;
  const ValueId holder = graph.find_value(name);
  if (holder != kNoValue) graph.rename_value(holder, name + "/inner");
  graph.rename_value(id, name);
}

template <class Repeated>
auto to_vector(const Repeated& field) {
  using T = typename Repeated::value_type;
  return std::vector<T>(field.begin(), field.end());
}

/// Old exporters leave the type of an attribute open; the field that is set tells it.
AttributeProto::Type type_of(const AttributeProto& proto) {
  if (proto.type() != AttributeProto::UNDEFINED) return proto.type();
  if (proto.has_f()) return AttributeProto::FLOAT;
  if (proto.has_i()) return AttributeProto::INT;
  if (proto.has_s()) return AttributeProto::STRING;
  if (proto.has_t()) return AttributeProto::TENSOR;
  if (proto.has_g()) return AttributeProto::GRAPH;
  if (proto.floats_size()) return AttributeProto::FLOATS;
  if (proto.strings_size()) return AttributeProto::STRINGS;
  return AttributeProto::INTS;
}

TensorData scalar(DType type, double value) {
  TensorData data = TensorData::zeros(type, {});
  data.write_double(0, value);
  return data;
}

/// The shape that the caller states for an input, after checking that it can be one.
Shape checked_override(const Shape& given, const Value& value) {
  GRAFT_USER_CHECK(value.dynamic_type.empty(), kInvalidArgument, "this input is not a tensor and has no shape",
                   fmt::format("input '{}'", value.name));
  GRAFT_USER_CHECK(!value.shape || value.shape->size() == given.size(), kInvalidArgument,
                   fmt::format("the shape {} has rank {}, but the model's {} has {}", to_string(given), given.size(),
                               value.shape ? to_string(*value.shape) : "", value.shape ? value.shape->size() : 0),
                   fmt::format("input '{}'", value.name));
  return given;
}

void check_overrides(const ImportOptions& options, const Graph& graph) {
  for (const auto& [name, shape] : options.input_shapes) {
    std::string known;
    bool found = false;
    for (const ValueId id : graph.inputs) {
      known += fmt::format("{}'{}'", known.empty() ? "" : ", ", graph.value(id).name);
      found = found || graph.value(id).name == name;
    }
    GRAFT_USER_CHECK(found, kInvalidArgument, fmt::format("the model has no such input; it has {}", known),
                     fmt::format("input '{}'", name));
  }
}

}  // namespace

ModelImporter::ModelImporter(ModelProto& model, const std::string& directory, size_t model_bytes,
                             const ImportOptions& options)
    : model_(model), options_(options), tensors_(directory, model_bytes), types_(options.symbols) {}

std::map<std::string, int64_t> ModelImporter::import_opsets() const {
  std::map<std::string, int64_t> opsets;
  for (const auto& entry : model_.opset_import()) opsets[normal_domain(entry.domain())] = entry.version();
  if (opsets.empty() && model_.ir_version() < 3) opsets[""] = 1;
  const auto it = opsets.find("");
  if (it == opsets.end()) return opsets;
  if (it->second < 1)
    fail(fmt::format("the opset {} does not exist; export the model again", it->second), "opset_import");
  GRAFT_USER_CHECK(it->second <= kOpset, kUnsupported,
                   fmt::format("the model speaks opset {}; Graft knows those up to {}. Export it with an older opset",
                               it->second, kOpset),
                   "opset_import");
  return opsets;
}

ModelImporter::~ModelImporter() = default;

void ModelImporter::read_libraries() {
  for (const auto& file : options_.operators.functions) {
    libraries_.push_back(std::make_unique<ModelProto>());
    read_functions(*libraries_.back(), *file);
  }
}

/// Those of the caller's files replace the model's own.
void ModelImporter::import_functions() {
  read_libraries();
  int64_t nodes = model_.graph().node_size();
  std::vector<ModelProto*> models = {&model_};
  for (const auto& library : libraries_) models.push_back(library.get());
  for (ModelProto* model : models) {
    for (FunctionProto& function : *model->mutable_functions()) {
      functions_[function_key(function.domain(), function.name(), function.overload())] = &function;
      nodes += function.node_size();
    }
  }
  nodes_left_ = kInlinedNodes + kInlineGrowth * nodes;
}

Graph ModelImporter::import() {
  GRAFT_USER_CHECK(model_.has_graph(), kInvalidModel, "it has no graph; this is not a complete ONNX model", "model");
  opsets_ = import_opsets();
  channel_block_ = channel_block(model_.graph());
  import_functions();
  Graph graph;
  GraphProto& proto = *model_.mutable_graph();
  graph.name = proto.name();
  graph.opsets.insert(opsets_.begin(), opsets_.end());
  graph.opsets[""] = kOpset;
  for (const auto& entry : model_.metadata_props()) graph.metadata.emplace_back(entry.key(), entry.value());
  ImportScope scope;
  scope.graph = &graph;
  scope.opsets = &opsets_;
  for (const auto& input : proto.input()) types_.learn_names(input.type());
  import_initializers(proto, scope);
  import_inputs(proto, scope, options_);
  check_overrides(options_, graph);
  import_hints(proto, scope);
  for (NodeProto& node : *proto.mutable_node()) import_node(node, scope);
  import_outputs(proto, scope);
  keep_declared_ranks(graph);
  types_.check_replacements();
  graph.remove_unused_values();
  verify(graph, /*trusted=*/false);
  return graph;
}

void ModelImporter::import_initializers(GraphProto& proto, ImportScope& scope) {
  const auto overridden = scope.outer ? std::set<std::string_view>{} : overridden_of(proto, options_.overridable);
  const auto add = [&](const std::string& name, TensorData data, const std::string& where) {
    if (name.empty()) fail("an initializer has no name", where);
    if (scope.names.count(name)) fail("two initializers have this name", where);
    scope.names[name] = scope.graph->add_constant(name, std::move(data));
  };
  for (auto& tensor : *proto.mutable_initializer()) {
    if (overridden.count(tensor.name())) continue;
    const std::string where = fmt::format("initializer '{}'", tensor.name());
    add(tensor.name(), tensors_.import(tensor, where), where);
  }
  for (auto& tensor : *proto.mutable_sparse_initializer()) {
    const std::string name = tensor.values().name();
    const std::string where = fmt::format("sparse initializer '{}'", name);
    add(name, tensors_.import_sparse(tensor, where), where);
  }
}

void ModelImporter::import_inputs(GraphProto& proto, ImportScope& scope, const ImportOptions& options) {
  std::set<std::string_view> seen;
  for (const auto& input : proto.input()) {
    const std::string where = fmt::format("input '{}'", input.name());
    if (input.name().empty()) fail("an input has no name", fmt::format("graph '{}'", proto.name()));
    if (!seen.insert(input.name()).second) fail("two inputs have this name", where);
    if (scope.names.count(input.name())) continue;  // its initializer is a constant
    ImportedType type = types_.import(input.type(), input.name());
    const ValueId id = scope.graph->add_value(input.name(), type.type, std::move(type.shape));
    Value& value = scope.graph->value(id);
    value.dynamic_type = std::move(type.dynamic_type);
    if (!scope.outer && value.type == DType::kUndefined && value.dynamic_type.empty()) {
      fail("it has no element type; export the model again with typed inputs", where);
    }
    const auto given = options.input_shapes.find(input.name());
    if (given != options.input_shapes.end()) value.shape = checked_override(given->second, value);
    scope.names[input.name()] = id;
    scope.graph->inputs.push_back(id);
  }
}

void ModelImporter::import_hints(const GraphProto& proto, ImportScope& scope) {
  for (const auto& info : proto.value_info()) scope.hints[info.name()] = &info.type();
  for (const auto& info : proto.output()) scope.hints[info.name()] = &info.type();
}

/// What the file says about a value counts where inference has nothing.
void ModelImporter::apply_hint(ImportScope& scope, ValueId id) {
  Value& value = scope.graph->value(id);
  if (value.type != DType::kUndefined && value.shape) return;
  const auto it = scope.hints.find(value.name);
  if (it == scope.hints.end()) return;
  ImportedType type = types_.import(*it->second, value.name);
  if (value.type == DType::kUndefined) {
    value.type = type.type;
    value.dynamic_type = std::move(type.dynamic_type);
  }
  if (!value.shape && value.dynamic_type.empty()) value.shape = std::move(type.shape);
}

void ModelImporter::import_outputs(GraphProto& proto, ImportScope& scope) {
  const std::string graph_name = fmt::format("graph '{}'", proto.name());
  std::set<std::string_view> seen;
  for (const auto& output : proto.output()) {
    const auto id = find(scope, output.name());
    if (!id || *id == kNoValue) {
      fail(fmt::format("nothing defines its output '{}'; export the model again", output.name()), graph_name);
    }
    if (!seen.insert(output.name()).second) {
      fail(fmt::format("the output '{}' is listed twice; give each output its own name", output.name()), graph_name);
    }
    const DType declared = types_.import(output.type(), output.name()).type;
    const DType found = scope.graph->value(*id).type;
    if (declared != DType::kUndefined && found != DType::kUndefined && declared != found) {
      fail(fmt::format("its output '{}' is declared as {}, but its node gives {}", output.name(), name_of(declared),
                       name_of(found)),
           graph_name);
    }
    scope.graph->outputs.push_back(*id);
    if (!scope.outer) claim_name(*scope.graph, *id, output.name());
  }
}

void ModelImporter::import_node(NodeProto& proto, ImportScope& scope) {
  const std::string where = describe_node(proto);
  GRAFT_USER_CHECK(--nodes_left_ >= 0, kUnsupported,
                   "the model's functions call each other so often that the graph grows beyond all measure", where);
  if (proto.op_type().empty()) fail("it names no operator", where);
  const std::string domain = normal_domain(proto.domain());
  const CustomOperator* custom = options_.operators.find(domain, proto.op_type());
  const auto function = functions_.find(function_key(domain, proto.op_type(), proto.overload()));
  if (!custom && function != functions_.end()) return inline_function(proto, *function->second, scope);
  if (domain.empty() && proto.op_type() == "Constant" && import_constant(proto, scope)) return;
  const auto opset = scope.opsets->find(domain);
  if (domain.empty() && opset == scope.opsets->end()) {
    fail("the model does not say which opset of ai.onnx it speaks; export it again", where);
  }
  Node node;
  node.name = scope.prefix + (proto.name().empty() ? proto.op_type() : proto.name());
  node.domain = domain;
  node.op = proto.op_type();
  for (const std::string& input : proto.input()) node.inputs.push_back(find_input(scope, input, where));
  while (!node.inputs.empty() && node.inputs.back() == kNoValue) node.inputs.pop_back();
  // What a body captures comes behind the node's own inputs, so a limit and a condition that are left out count.
  if (domain.empty() && node.op == "Loop") node.inputs.resize(std::max<size_t>(node.inputs.size(), 2), kNoValue);
  import_attributes(proto, node, scope);
  if (custom) node.attributes[std::string(kDefinitionAttribute)] = custom->text;
  for (const std::string& output : proto.output()) node.outputs.push_back(define(scope, output, where));
  const std::vector<ValueId> outputs = node.outputs;
  NodeWriter writer(*scope.graph, node.name);
  if (const ContribOperator* contrib = custom ? nullptr : find_contrib_operator(domain, node.op)) {
    if (domain == kBlockedDomain) node.attributes[std::string(kChannelBlock)] = channel_block_;
    expand_contrib(*contrib, writer, node);
  } else {
    add_converted(writer, std::move(node), domain.empty() ? opset->second : kOpset);
  }
  for (const ValueId id : outputs) {
    if (id != kNoValue) apply_hint(scope, id);
  }
}

/// Constant in all its spellings becomes a constant of the graph; false when its attribute cannot be found.
bool ModelImporter::import_constant(NodeProto& proto, ImportScope& scope) {
  const std::string where = describe_node(proto);
  if (proto.output_size() != 1 || proto.attribute_size() != 1)
    fail("a Constant has one attribute and one output", where);
  AttributeProto* attribute = proto.mutable_attribute(0);
  const std::string name = attribute->name();
  if (!attribute->ref_attr_name().empty()) {
    const auto end = ImportScope::Binding{nullptr, nullptr};
    const auto it =
        scope.attributes ? scope.attributes->find(attribute->ref_attr_name()) : decltype(scope.attributes->end())();
    const auto binding = scope.attributes && it != scope.attributes->end() ? it->second : end;
    if (!binding.proto)
      fail(fmt::format("the function is called without the attribute '{}'", attribute->ref_attr_name()), where);
    attribute = binding.proto;
  }
  TensorData data;
  if (name == "value") {
    data = tensors_.import(*attribute->mutable_t(), where);
  } else if (name == "sparse_value") {
    data = tensors_.import_sparse(*attribute->mutable_sparse_tensor(), where);
  } else if (name == "value_float") {
    data = scalar(DType::kFloat32, attribute->f());
  } else if (name == "value_int") {
    data = TensorData::from_values<int64_t>(DType::kInt64, {}, {attribute->i()});
  } else if (name == "value_string") {
    data = TensorData::from_strings({}, {attribute->s()});
  } else if (name == "value_floats") {
    data = TensorData::from_values(DType::kFloat32, {attribute->floats_size()}, to_vector(attribute->floats()));
  } else if (name == "value_ints") {
    data = TensorData::from_values(DType::kInt64, {attribute->ints_size()}, to_vector(attribute->ints()));
  } else if (name == "value_strings") {
    data = TensorData::from_strings({attribute->strings_size()}, to_vector(attribute->strings()));
  } else {
    fail(fmt::format("a Constant has no attribute '{}'", name), where);
  }
  const ValueId id = define(scope, proto.output(0), where);
  if (id == kNoValue) return true;
  Value& value = scope.graph->value(id);
  value.type = data.type();
  value.shape = Shape(data.shape().begin(), data.shape().end());
  value.constant = std::move(data);
  return true;
}

/// The body's nodes join the caller's graph; formal names are bound to the call's values.
void ModelImporter::inline_function(NodeProto& call, FunctionProto& function, ImportScope& scope) {
  const std::string where = describe_node(call);
  if (calls_.size() >= kDeepestCall) fail("functions call each other too deeply", where);
  if (std::find(calls_.begin(), calls_.end(), &function) != calls_.end()) {
    fail(fmt::format("the function '{}' calls itself, which ONNX does not allow", function.name()), where);
  }
  if (call.input_size() > function.input_size() || call.output_size() > function.output_size()) {
    fail(fmt::format("the function '{}' has {} inputs and {} outputs, but the call {} and {}", function.name(),
                     function.input_size(), function.output_size(), call.input_size(), call.output_size()),
         where);
  }
  ImportScope body;
  body.graph = scope.graph;
  body.prefix = scope.prefix + (call.name().empty() ? call.op_type() : call.name()) + "/";
  std::map<std::string, int64_t> opsets;
  for (const auto& entry : function.opset_import()) opsets[normal_domain(entry.domain())] = entry.version();
  opsets.insert(opsets_.begin(), opsets_.end());
  if (opsets.count("") && (opsets[""] < 1 || opsets[""] > kOpset)) {
    fail(fmt::format("the function '{}' speaks opset {}, which does not exist here", function.name(), opsets[""]),
         where);
  }
  body.opsets = &opsets;
  std::map<std::string, ImportScope::Binding, std::less<>> attributes;
  for (AttributeProto& attribute : *function.mutable_attribute_proto())
    attributes[attribute.name()] = {&attribute, &body};
  for (AttributeProto& attribute : *call.mutable_attribute()) {
    ImportScope::Binding binding{&attribute, &scope};
    if (!attribute.ref_attr_name().empty()) {
      if (!scope.attributes) fail("it refers to an attribute of a function, but is not in one", where);
      const auto it = scope.attributes->find(attribute.ref_attr_name());
      if (it == scope.attributes->end()) continue;
      binding = it->second;
    }
    attributes[attribute.name()] = binding;
  }
  body.attributes = &attributes;
  for (int i = 0; i < function.input_size(); ++i) {
    const ValueId id = i < call.input_size() ? find_input(scope, call.input(i), where) : kNoValue;
    if (!body.names.emplace(function.input(i), id).second) fail("two inputs of its function have one name", where);
  }
  // An output that is an input at the same time needs an Identity.
  std::vector<std::pair<ValueId, ValueId>> passed;
  for (int i = 0; i < call.output_size(); ++i) {
    const ValueId id = define(scope, call.output(i), where);
    if (id == kNoValue) continue;
    const auto existing = body.names.find(function.output(i));
    if (existing != body.names.end()) {
      if (existing->second == kNoValue) fail("an output of its function is an input that the call leaves out", where);
      passed.emplace_back(existing->second, id);
      continue;
    }
    body.names[function.output(i)] = id;
    body.promised.insert(function.output(i));
  }
  calls_.push_back(&function);
  for (NodeProto& node : *function.mutable_node()) import_node(node, body);
  calls_.pop_back();
  if (!body.promised.empty()) {
    fail(fmt::format("the function '{}' does not define its output '{}'", function.name(), *body.promised.begin()),
         where);
  }
  for (const auto& [from, to] : passed) {
    NodeWriter writer(*scope.graph, body.prefix + "Identity");
    writer.add({.name = body.prefix + "Identity", .op = "Identity", .inputs = {from}, .outputs = {to}});
  }
}

void ModelImporter::import_attributes(NodeProto& proto, Node& node, ImportScope& scope) {
  const std::string where = describe_node(proto);
  std::map<std::string, std::vector<ValueId>> captured;  // by attribute name, which is the order of `captures`
  // In the order of names, so that what bodies capture does not depend on the order in a file.
  std::vector<AttributeProto*> by_name;
  for (AttributeProto& written : *proto.mutable_attribute()) by_name.push_back(&written);
  std::stable_sort(by_name.begin(), by_name.end(),
                   [](const AttributeProto* a, const AttributeProto* b) { return a->name() < b->name(); });
  for (AttributeProto* attribute_proto : by_name) {
    AttributeProto& written = *attribute_proto;
    ImportScope::Binding binding{&written, &scope};
    if (!written.ref_attr_name().empty()) {
      if (!scope.attributes) fail("it refers to an attribute of a function, but is not in one", where);
      const auto it = scope.attributes->find(written.ref_attr_name());
      if (it == scope.attributes->end()) continue;  // optional, and the call leaves it out
      binding = it->second;
    }
    std::vector<ValueId> values;
    Attribute attribute = import_attribute(*binding.proto, node, values, *binding.scope, where);
    if (std::holds_alternative<std::shared_ptr<const Graph>>(attribute)) captured[written.name()] = std::move(values);
    if (!node.attributes.emplace(written.name(), std::move(attribute)).second) {
      fail(fmt::format("the attribute '{}' is given twice", written.name()), where);
    }
  }
  if (captured.empty()) return;
  std::vector<int64_t> counts;
  for (const auto& [name, values] : captured) {
    counts.push_back(static_cast<int64_t>(values.size()));
    node.inputs.insert(node.inputs.end(), values.begin(), values.end());
  }
  node.attributes["captures"] = std::move(counts);
}

Attribute ModelImporter::import_attribute(AttributeProto& proto, Node& node, std::vector<ValueId>& captured,
                                          ImportScope& scope, const std::string& where) {
  const std::string name = fmt::format("{}, attribute '{}'", where, proto.name());
  switch (type_of(proto)) {
    case AttributeProto::FLOAT:
      return static_cast<double>(proto.f());
    case AttributeProto::INT:
      return static_cast<int64_t>(proto.i());
    case AttributeProto::STRING:
      return proto.s();
    case AttributeProto::FLOATS:
      return std::vector<double>(proto.floats().begin(), proto.floats().end());
    case AttributeProto::INTS:
      return std::vector<int64_t>(proto.ints().begin(), proto.ints().end());
    case AttributeProto::STRINGS:
      return to_vector(proto.strings());
    case AttributeProto::TENSOR:
      return tensors_.import(*proto.mutable_t(), name);
    case AttributeProto::SPARSE_TENSOR:
      return tensors_.import_sparse(*proto.mutable_sparse_tensor(), name);
    case AttributeProto::GRAPH:
      return import_subgraph(*proto.mutable_g(), node, captured, scope);
    case AttributeProto::TYPE_PROTO: {
      const ImportedType type = types_.import(proto.tp(), proto.name());
      if (!type.dynamic_type.empty()) return type.dynamic_type;
      return std::string(name_of(type.type)) + (type.shape ? to_string(*type.shape) : "");
    }
    default:
      break;
  }
  throw Error(ErrorKind::kUnsupported, "lists of tensors, graphs or types are not read; no operator of ONNX has them",
              name);
}

/// What the body's inputs are when the file leaves their types open.
void ModelImporter::type_body_input(const Node& node, size_t index, ImportScope& outer, Value& value) const {
  if (node.op != "Loop" || value.type != DType::kUndefined || !value.dynamic_type.empty()) return;
  if (index < 2) {
    value.type = index == 0 ? DType::kInt64 : DType::kBool;
    value.shape = Shape{};
    return;
  }
  if (index >= node.inputs.size() || node.inputs[index] == kNoValue) return;
  // Carried values keep their type; their shape may change from one iteration to the next.
  const Value& carried = outer.graph->value(node.inputs[index]);
  value.type = carried.type;
  value.dynamic_type = carried.dynamic_type;
}

std::shared_ptr<const Graph> ModelImporter::import_subgraph(GraphProto& proto, const Node& node,
                                                            std::vector<ValueId>& captured, ImportScope& scope) {
  int depth = 1;
  for (const ImportScope* around = scope.outer; around; around = around->outer) ++depth;
  GRAFT_USER_CHECK(depth <= kDeepestGraph, kUnsupported, too_deep_graphs(),
                   fmt::format("node '{}' ({})", node.name, node.op));
  auto graph = std::make_shared<Graph>();
  graph->name = proto.name();
  graph->opsets = scope.graph->opsets;
  ImportScope inner;
  inner.graph = graph.get();
  inner.outer = &scope;
  inner.opsets = scope.opsets;
  inner.attributes = scope.attributes;
  import_initializers(proto, inner);
  import_inputs(proto, inner, {});
  for (size_t i = 0; i < graph->inputs.size(); ++i) type_body_input(node, i, scope, graph->value(graph->inputs[i]));
  import_hints(proto, inner);
  for (NodeProto& inner_node : *proto.mutable_node()) import_node(inner_node, inner);
  import_outputs(proto, inner);
  captured = std::move(inner.captured);
  graph->remove_unused_values();
  return graph;
}

}  // namespace graft
