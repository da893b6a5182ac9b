// SPDX-License-Identifier: Apache-2.0
#include "export/onnx/model_file.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "base/import_budget.h"
#include "base/spelling.h"
#include "export/onnx/model_contents.h"
#include "export/onnx/write_model.h"
#include "import/onnx/import.h"
#include "import/onnx/import_tensor.h"
#include "import/onnx/read_model.h"

namespace graft {
namespace {

using graft_onnx::GraphProto;
using graft_onnx::ModelProto;
using graft_onnx::NodeProto;
using graft_onnx::TensorProto;
using Names = std::set<std::string, std::less<>>;

/// Weights of bodies and attributes that lie in files beside the model come inside: they are few and small.
void take_inside(GraphProto& graph, TensorImporter& tensors);

void take_inside(TensorProto& tensor, TensorImporter& tensors) {
  if (tensor.data_location() != TensorProto::EXTERNAL) return;
  const TensorData data = tensors.import(tensor, fmt::format("tensor '{}'", tensor.name()));
  TensorProto inside;
  inside.set_name(tensor.name());
  TensorWriter().write(data, TensorPlace::kInside, inside);
  tensor.Swap(&inside);
}

void take_inside(NodeProto& node, TensorImporter& tensors) {
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.has_t()) take_inside(*attribute.mutable_t(), tensors);
    for (TensorProto& tensor : *attribute.mutable_tensors()) take_inside(tensor, tensors);
    if (attribute.has_g()) take_inside(*attribute.mutable_g(), tensors);
    for (GraphProto& graph : *attribute.mutable_graphs()) take_inside(graph, tensors);
  }
}

void take_inside(GraphProto& graph, TensorImporter& tensors) {
  for (TensorProto& tensor : *graph.mutable_initializer()) take_inside(tensor, tensors);
  for (NodeProto& node : *graph.mutable_node()) take_inside(node, tensors);
}

/// What a graph's bodies read of the graphs around them, in the order in which they do.
void collect_captured(const GraphProto& body, Names known, std::vector<std::string>& into);

void collect_captured(const NodeProto& node, const Names& known, std::vector<std::string>& into) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) collect_captured(attribute.g(), known, into);
    for (const GraphProto& graph : attribute.graphs()) collect_captured(graph, known, into);
  }
}

void collect_captured(const GraphProto& body, Names known, std::vector<std::string>& into) {
  for (const auto& input : body.input()) known.insert(input.name());
  for (const auto& tensor : body.initializer()) known.insert(tensor.name());
  for (const auto& tensor : body.sparse_initializer()) known.insert(tensor.values().name());
  const auto read = [&](const std::string& name) {
    if (!name.empty() && !known.count(name) && std::find(into.begin(), into.end(), name) == into.end()) {
      into.push_back(name);
    }
  };
  for (const NodeProto& node : body.node()) {
    for (const std::string& name : node.input()) read(name);
    collect_captured(node, known, into);
    for (const std::string& name : node.output()) known.insert(name);
  }
  for (const auto& output : body.output()) read(output.name());
}

using graft_onnx::AttributeProto;

/// The text of an attribute that holds numbers or texts.
std::string text_of(const AttributeProto& attribute) {
  if (attribute.ints_size() > 0) return fmt::format("{}", fmt::join(attribute.ints(), " "));
  if (attribute.floats_size() > 0) return fmt::format("{}", fmt::join(attribute.floats(), " "));
  if (attribute.strings_size() > 0) return fmt::format("{}", fmt::join(attribute.strings(), " "));
  if (attribute.type() == AttributeProto::INT) return std::to_string(attribute.i());
  if (attribute.type() == AttributeProto::FLOAT) return fmt::format("{}", attribute.f());
  return attribute.s();
}

std::string own_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

ModelNode facts_of(const NodeProto& proto);

void add_bodies(const GraphProto& body, std::vector<ModelNode>& into) {
  for (const NodeProto& node : body.node()) into.push_back(facts_of(node));
}

ModelNode facts_of(const NodeProto& proto) {
  ModelNode node{.name = proto.name(), .op = proto.op_type(), .inputs = {}, .outputs = {},
                 .domain = own_domain(proto.domain()),
                 .operands = {proto.input().begin(), proto.input().end()},
                 .results = {proto.output().begin(), proto.output().end()}, .attributes = {}, .bodies = {}};
  for (const AttributeProto& attribute : proto.attribute()) {
    node.attributes[attribute.name()] = text_of(attribute);
    if (attribute.has_g()) add_bodies(attribute.g(), node.bodies);
    for (const GraphProto& graph : attribute.graphs()) add_bodies(graph, node.bodies);
  }
  for (const std::string& name : proto.input()) {
    if (!name.empty()) node.inputs.push_back(name);
  }
  collect_captured(proto, {}, node.inputs);
  for (const std::string& name : proto.output()) {
    if (!name.empty()) node.outputs.push_back(name);
  }
  return node;
}

/// Nodes without a name get that of their operator, numbered as in an imported graph.
void name_nodes(std::vector<ModelNode>& nodes) {
  Names taken;
  for (ModelNode& node : nodes) {
    const std::string base = node.name.empty() ? node.op : node.name;
    node.name = base;
    for (int k = 1; !taken.insert(node.name).second; ++k) node.name = fmt::format("{}_{}", base, k);
  }
}

[[noreturn]] void fail(const std::string& message, const std::string& where) {
  throw Error(ErrorKind::kInvalidArgument, message, where);
}

void check_not_empty(const ModelCut& part, const std::string& where) {
  if (std::find(part.nodes.begin(), part.nodes.end(), true) == part.nodes.end()) {
    fail("no node is left between these inputs and outputs", where);
  }
}

}  // namespace

void ModelFile::Contents::index() {
  nodes.clear();
  producer.clear();
  for (const NodeProto& node : model.graph().node()) nodes.push_back(facts_of(node));
  name_nodes(nodes);
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const std::string& output : nodes[n].outputs) producer[output] = n;
  }
}

ModelFile ModelFile::open(const std::string& path, const std::function<bool()>& cancelled) {
  return open(path, ImportOptions{}, cancelled);
}

ModelFile ModelFile::open(const std::string& path, const ImportOptions& options,
                          const std::function<bool()>& cancelled) {
  auto contents = std::make_shared<Contents>();
  within_import_budget(cancelled, path, [&] { read(*contents, path, options); });
  return ModelFile(std::move(contents));
}

void ModelFile::read(Contents& contents, const std::string& path, const ImportOptions& options) {
  const auto file = MappedFile::open(path);
  read_model(contents.model, file->bytes(), /*mapped=*/true);
  GRAFT_USER_CHECK(contents.model.has_graph(), kInvalidModel, "it has no graph; this is not a complete ONNX model",
                   path);
  TensorImporter tensors(directory_of(path), file->bytes().size());
  GraphProto& graph = *contents.model.mutable_graph();
  for (TensorProto& tensor : *graph.mutable_initializer()) {
    const std::string where = fmt::format("initializer '{}'", tensor.name());
    contents.weights[tensor.name()] = tensors.import(tensor, where);
    TensorProto named;
    named.set_name(tensor.name());
    tensor.Swap(&named);
  }
  for (NodeProto& node : *graph.mutable_node()) take_inside(node, tensors);
  contents.index();
  try {
    contents.learn_types(import_onnx(path, options));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCancelled) throw;
    contents.why_no_types = error.what();
  }
}

const std::vector<ModelNode>& ModelFile::nodes() const { return contents_->nodes; }

const std::map<std::string, TensorData, std::less<>>& ModelFile::weights() const { return contents_->weights; }

std::vector<std::string> ModelFile::outputs() const {
  std::vector<std::string> names;
  for (const auto& output : contents_->model.graph().output()) names.push_back(output.name());
  return names;
}

std::vector<ModelInput> ModelFile::inputs() const {
  std::vector<ModelInput> inputs;
  for (const auto& proto : contents_->model.graph().input()) {
    if (contents_->weights.count(proto.name())) continue;
    ModelInput input{.name = proto.name()};
    const auto& type = proto.type().tensor_type();
    input.type = dtype_from_onnx(type.elem_type()).value_or(DType::kUndefined);
    if (type.has_shape()) {
      input.shape.emplace();
      for (const auto& dim : type.shape().dim()) {
        input.shape->push_back(dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.dim_param());
      }
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::vector<std::string> ModelFile::value_names() const {
  std::vector<std::string> names;
  for (const auto& input : contents_->model.graph().input()) names.push_back(input.name());
  for (const auto& [name, weight] : contents_->weights) names.push_back(name);
  for (const auto& tensor : contents_->model.graph().sparse_initializer()) names.push_back(tensor.values().name());
  for (const auto& [name, node] : contents_->producer) names.push_back(name);
  return names;
}

ModelValueType ModelFile::type_of(const std::string& value) const {
  const auto weight = contents_->weights.find(value);
  if (weight != contents_->weights.end()) {
    return {weight->second.type(), static_cast<int>(weight->second.shape().size())};
  }
  try {
    const auto any = contents_->type_of(value);
    const auto& type = any.tensor_type();
    const bool is_tensor = any.value_case() == graft_onnx::TypeProto::kTensorType;
    return {dtype_from_onnx(type.elem_type()).value_or(DType::kUndefined),
            type.has_shape() ? type.shape().dim_size() : -1, is_tensor};
  } catch (const Error&) {
    return {.is_tensor = false};
  }
}

int64_t ModelFile::opset() const {
  for (const auto& opset : contents_->model.opset_import()) {
    if (own_domain(opset.domain()).empty()) return opset.version();
  }
  return 0;
}

bool ModelFile::has_function(const std::string& domain, const std::string& name) const {
  const auto& functions = contents_->model.functions();
  return std::any_of(functions.begin(), functions.end(), [&](const auto& each) {
    return own_domain(each.domain()) == domain && each.name() == name;
  });
}

void ModelFile::check_value(const std::string& name, const std::string& where) const {
  const std::vector<std::string> names = value_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  fail(fmt::format("the model has no tensor '{}'{}", name, did_you_mean(name, names)), where);
}

ModelCut ModelFile::between(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) const {
  for (const std::string& name : inputs) check_value(name, "--inputs");
  for (const std::string& name : outputs) check_value(name, "--outputs");
  ModelCut part{.nodes = std::vector<bool>(nodes().size(), false),
                .inputs = inputs,
                .outputs = outputs.empty() ? this->outputs() : outputs};
  const Names given(inputs.begin(), inputs.end());
  std::vector<std::string> wanted = part.outputs;
  Names seen;
  while (!wanted.empty()) {
    const std::string name = std::move(wanted.back());
    wanted.pop_back();
    if (given.count(name) || !seen.insert(name).second) continue;
    const auto producer = contents_->producer.find(name);
    if (producer == contents_->producer.end() || part.nodes[producer->second]) continue;
    part.nodes[producer->second] = true;
    const ModelNode& node = nodes()[producer->second];
    wanted.insert(wanted.end(), node.inputs.begin(), node.inputs.end());
  }
  check_not_empty(part, "--outputs");
  Names read;
  for (size_t n = 0; n < nodes().size(); ++n) {
    if (part.nodes[n]) read.insert(nodes()[n].inputs.begin(), nodes()[n].inputs.end());
  }
  for (const std::string& name : inputs) {
    if (read.count(name)) continue;
    fail(fmt::format("the outputs do not depend on '{}': nothing between reads it; leave it out, or choose other "
                     "outputs", name), "--inputs");
  }
  return part;
}

ModelCut ModelFile::around(const std::vector<std::string>& names) const {
  std::vector<std::string> known;
  for (const ModelNode& node : nodes()) known.push_back(node.name);
  std::vector<bool> kept(nodes().size(), false);
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) {
      fail(fmt::format("the model has no node '{}'{}", name, did_you_mean(name, known)), "--nodes");
    }
    kept[static_cast<size_t>(found - known.begin())] = true;
  }
  return around(kept);
}

ModelCut ModelFile::around(const std::vector<bool>& kept) const {
  ModelCut part{.nodes = kept, .inputs = {}, .outputs = {}};
  const std::vector<std::string> results = outputs();
  Names outside(results.begin(), results.end()), inside;
  for (size_t n = 0; n < nodes().size(); ++n) {
    (kept[n] ? inside : outside).insert(nodes()[n].inputs.begin(), nodes()[n].inputs.end());
  }
  for (size_t n = 0; n < nodes().size(); ++n) {
    if (!kept[n]) continue;
    for (const std::string& name : nodes()[n].outputs) {
      if (outside.count(name) || !inside.count(name)) part.outputs.push_back(name);
    }
  }
  return part;
}

ModelFile ModelFile::with_weight(const std::string& name, TensorData tensor) const {
  auto changed = std::make_shared<Contents>(*contents_);
  changed->weights[name] = std::move(tensor);
  return ModelFile(std::move(changed));
}

ModelFile ModelFile::with_size(const std::string& size, int64_t value) const {
  auto changed = std::make_shared<Contents>(*contents_);
  changed->replace_size(size, value);
  return ModelFile(std::move(changed));
}

void ModelFile::save(const std::string& path, const OnnxWeights& weights) const {
  int64_t bytes = 0;
  for (const auto& [name, weight] : contents_->weights) bytes += weight.byte_count();
  const auto make = [&](TensorWriter& tensors, ModelProto& model) {
    model = contents_->model;
    for (TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
      tensors.write(contents_->weights.find(tensor.name())->second, TensorPlace::kAnywhere, tensor);
    }
  };
  write_model(make, bytes, path, weights);
}

}  // namespace graft
