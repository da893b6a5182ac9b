// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/saved_model.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "base/spelling.h"
#include "import/tensorflow/saved_model.pb.h"
#include "import/tensorflow/variables.h"

namespace graft::tensorflow {
namespace {

using graft_tensorflow::MetaInfoDef;
using graft_tensorflow::OpDef;
using graft_tensorflow::SaverDef;
using graft_tensorflow::SignatureDef;
using graft_tensorflow::SignatureEntry;
using graft_tensorflow::TensorEntry;

using Bytes = std::span<const std::byte>;

constexpr int kMetaGraphs = 2;                                  // of SavedModel
constexpr int kMetaInfo = 1, kGraph = 2, kSaver = 3, kSignatures = 5;  // of MetaGraphDef
constexpr const char* kDefaultTag = "serve";
constexpr const char* kDefaultSignature = "serving_default";
constexpr const char* kInitialiser = "__saved_model_init_op";  // a signature that is none

/// One graph of the model, which may have several: for training, for devices.
struct MetaGraph {
  MetaInfoDef info;
  SaverDef saver;
  std::map<std::string, SignatureDef> signatures;
  Bytes graph;
};

template <class Message>
void parse(Message& message, Bytes bytes, const std::string& path) {
  GRAFT_USER_CHECK(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())), kInvalidModel,
                   "it is no SavedModel, or it is damaged or was cut short: copy or save the model again", path);
}

std::vector<WireField> fields_of(Bytes bytes, const std::string& path) {
  auto fields = wire_fields(bytes);
  GRAFT_USER_CHECK(fields, kInvalidModel,
                   "it is no SavedModel, or it is damaged or was cut short: copy or save the model again", path);
  return *std::move(fields);
}

MetaGraph read_meta_graph(Bytes bytes, const std::string& path) {
  MetaGraph made;
  for (const WireField& field : fields_of(bytes, path)) {
    if (!field.has_payload) continue;
    if (field.number == kMetaInfo) parse(made.info, field.payload, path);
    if (field.number == kSaver) parse(made.saver, field.payload, path);
    if (field.number == kGraph) made.graph = field.payload;
    if (field.number != kSignatures) continue;
    SignatureEntry entry;
    parse(entry, field.payload, path);
    if (entry.key() != kInitialiser) made.signatures[entry.key()] = entry.value();
  }
  return made;
}

/// The graph whose tags are those that are wanted.
MetaGraph find_meta_graph(Bytes bytes, std::vector<std::string> tags, const std::string& path) {
  if (tags.empty()) tags = {kDefaultTag};
  const std::set<std::string> wanted(tags.begin(), tags.end());
  std::vector<std::string> there;
  for (const WireField& field : fields_of(bytes, path)) {
    if (field.number != kMetaGraphs || !field.has_payload) continue;
    MetaGraph made = read_meta_graph(field.payload, path);
    const std::set<std::string> has(made.info.tags().begin(), made.info.tags().end());
    if (has == wanted) return made;
    there.push_back(fmt::format("{}", fmt::join(has, ",")));
  }
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("{} has no graph with the tags {}; it has {}", path, fmt::join(wanted, ","),
                          there.empty() ? "none" : fmt::format("{}", fmt::join(there, " and "))),
              "tag");
}

std::string chosen_signature(const MetaGraph& graph, const std::string& wanted, const std::string& path) {
  std::vector<std::string> names;
  for (const auto& [name, signature] : graph.signatures) names.push_back(name);
  GRAFT_USER_CHECK(!names.empty(), kInvalidModel,
                   "it has no signature: save the model with signatures=..., or export it (Keras: model.export)", path);
  const std::string name = !wanted.empty() ? wanted : names.size() == 1 ? names[0] : kDefaultSignature;
  GRAFT_USER_CHECK(graph.signatures.contains(name), kInvalidArgument,
                   fmt::format("the model has no signature '{}'; it has {}{}", name, fmt::join(names, ", "),
                               did_you_mean(name, names)),
                   "signature");
  return name;
}

/// Inputs or outputs of a signature, by name.
std::vector<NamedTensor> tensors_of(const google::protobuf::RepeatedPtrField<TensorEntry>& entries, bool inputs,
                                    const std::string& where) {
  std::map<std::string, NamedTensor> made;
  for (const TensorEntry& entry : entries) {
    const std::string named = fmt::format("{}, {} '{}'", where, inputs ? "input" : "output", entry.key());
    GRAFT_USER_CHECK(!entry.value().name().empty(), kUnsupported,
                     "it is no dense tensor (sparse and ragged ones are several): give their parts by themselves",
                     named);
    NamedTensor tensor{.name = entry.key(), .source = parse_source(entry.value().name(), named), .placeholder = {}};
    GRAFT_USER_CHECK(!tensor.source.control, kInvalidModel, "it is no tensor", named);
    if (inputs) {
      GRAFT_USER_CHECK(tensor.source.index == 0, kUnsupported, "it is a result of a node that is not its first", named);
      auto node = std::make_shared<graft_tensorflow::NodeDef>();
      auto& type = *node->add_attr();
      type.set_key("dtype"), type.mutable_value()->set_type(entry.value().dtype());
      auto& shape = *node->add_attr();
      shape.set_key("shape"), *shape.mutable_value()->mutable_shape() = entry.value().tensor_shape();
      tensor.placeholder = std::move(node);
    }
    made.insert_or_assign(tensor.name, std::move(tensor));
  }
  std::vector<NamedTensor> list;
  for (auto& [name, tensor] : made) list.push_back(std::move(tensor));
  return list;
}

std::vector<std::string> nodes_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.source.node);
  return names;
}

/// What the caller gives as placeholders, whatever it is in the graph.
void make_placeholders(std::vector<FileNode>& nodes, const std::vector<NamedTensor>& inputs) {
  for (FileNode& node : nodes) {
    for (const NamedTensor& input : inputs) {
      if (node.name != input.source.node) continue;
      node.op = "Placeholder";
      node.message = input.placeholder;
    }
  }
}

}  // namespace

SignatureGraph read_saved_model(const std::string& folder, const std::string& signature,
                                const std::vector<std::string>& tags) {
  const std::string path = folder + "/saved_model.pb";
  const auto bytes = MappedFile::open_contained(folder, "saved_model.pb");
  const MetaGraph graph = find_meta_graph(bytes->bytes(), tags, path);
  const std::string name = chosen_signature(graph, signature, path);
  const std::string where = fmt::format("{}: signature '{}'", path, name);
  std::vector<NamedTensor> inputs = tensors_of(graph.signatures.at(name).inputs(), true, where);
  std::vector<NamedTensor> outputs = tensors_of(graph.signatures.at(name).outputs(), false, where);
  GRAFT_USER_CHECK(!outputs.empty(), kInvalidModel, "it gives nothing", where);
  Operators operators;
  for (const OpDef& op : graph.info.stripped_op_list().op()) operators.emplace(op.name(), &op);
  const GraphFile file(graph.graph, bytes);
  const GraphFile flat = inline_functions(file, nodes_of(outputs), nodes_of(inputs), operators);
  VariableKeys keys;
  const std::string restore = parse_source(graph.saver.restore_op_name(), path).node;
  if (!restore.empty()) keys = keys_of(inline_functions(file, {restore}, {}, operators));
  std::optional<Checkpoint> checkpoint;
  constexpr std::string_view kVariables = "variables/variables";
  if (std::filesystem::exists(fmt::format("{}/{}.index", folder, kVariables))) checkpoint.emplace(folder, kVariables);
  std::vector<FileNode> nodes = freeze_variables(flat, keys, checkpoint ? &*checkpoint : nullptr);
  make_placeholders(nodes, inputs);
  return {GraphFile(std::move(nodes), file), std::move(inputs), std::move(outputs)};
}

}  // namespace graft::tensorflow
