// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/import.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "base/spelling.h"
#include "frontend/whole_model.h"
#include "graph/symbols.h"
#include "import/tensorflow/graph.pb.h"
#include "import/tensorflow/import_tensor.h"
#include "import/tensorflow/raise_control_flow.h"
#include "import/tensorflow/read_graph.h"
#include "import/tensorflow/rows.h"
#include "import/tensorflow/saved_model.h"
#include "import/tensorflow/variables.h"

namespace graft::tensorflow {
namespace {

constexpr const char* kFileName = "saved_model.pb";
constexpr std::byte kFirstNode{0x0a};  // field 1, a message: of a GraphDef its nodes, of an ONNX file a number

bool is_folder(const std::string& path) {
  std::error_code fault;
  return std::filesystem::is_directory(path, fault);
}

/// The folder of a SavedModel, or nothing.
std::string folder_of(const std::string& path) {
  if (is_folder(path)) return path;
  return std::filesystem::path(path).filename() == kFileName ? directory_of(path) : "";
}

/// What nobody takes, but constants and what only runs.
std::vector<std::string> last_nodes(const GraphFile& file) {
  std::set<std::string, std::less<>> taken;
  for (const FileNode& node : file.nodes()) {
    for (const Source& source : node.inputs) taken.insert(source.node);
  }
  std::vector<std::string> names;
  for (const FileNode& node : file.nodes()) {
    const bool gives = node.op != "Const" && node.op != "NoOp" && node.op != "Placeholder" && node.op != "Assert";
    if (gives && !taken.contains(node.name)) names.push_back(node.name);
  }
  GRAFT_USER_CHECK(!names.empty(), kInvalidArgument, "the graph has no node that no other takes: name its outputs",
                   "outputs");
  return names;
}

SignatureGraph read_frozen(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                           std::vector<std::string> outputs) {
  const GraphFile file(bytes, std::move(owner));
  if (outputs.empty()) outputs = last_nodes(file);
  std::vector<NamedTensor> inputs, named;
  for (const std::string& output : outputs) {
    named.push_back({.name = output, .source = parse_source(output, "outputs"), .placeholder = {}});
  }
  std::vector<std::string> roots;
  for (const NamedTensor& output : named) roots.push_back(output.source.node);
  const GraphFile flat = inline_functions(file, roots, {}, {});
  for (const FileNode& node : flat.nodes()) {
    if (node.op != "Placeholder") continue;
    inputs.push_back({.name = node.name, .source = {.node = node.name}, .placeholder = {}});
  }
  return {GraphFile(freeze_variables(flat, {}, nullptr), file), std::move(inputs), std::move(named)};
}

/// Names and shapes that the caller uses for what the graph is given.
void name_inputs(ReadGraph& read, const SignatureGraph& model, const ImportOptions& options) {
  std::vector<int> inputs;
  std::vector<std::string> names;
  for (const NamedTensor& input : model.inputs) {
    names.push_back(input.name);
    for (const int value : read.foreign.inputs) {
      frontend::ForeignValue& given = read.foreign.values[static_cast<size_t>(value)];
      if (given.name != input.source.node) continue;
      const FileNode& node = model.file.nodes()[static_cast<size_t>(model.file.find(input.source.node))];
      const auto* shape = node.attribute("shape");
      if (given.shape && shape) given.shape = import_shape(shape->shape(), input.name);
      const auto chosen = options.shapes.find(input.name);
      if (chosen != options.shapes.end()) given.shape = Shape(chosen->second.begin(), chosen->second.end());
      inputs.push_back(value);
    }
  }
  for (const auto& [name, shape] : options.shapes) {
    GRAFT_USER_CHECK(std::find(names.begin(), names.end(), name) != names.end(), kInvalidArgument,
                     fmt::format("the model has no input '{}'; it has {}{}", name, fmt::join(names, ", "),
                                 did_you_mean(name, names)),
                     "shape");
  }
  read.foreign.inputs = inputs;
}

/// What the outputs are made of, without what only has to run (checks, prints); inputs stay.
GraphFile only_data(const SignatureGraph& model) {
  std::vector<bool> seen(model.file.nodes().size(), false);
  std::vector<size_t> queue;
  const auto visit = [&](const Source& source) {
    const auto n = static_cast<size_t>(model.file.find(source.node));
    if (!source.control && !seen[n]) queue.push_back(n), seen[n] = true;
  };
  for (const NamedTensor& each : model.outputs) visit(each.source);
  for (const NamedTensor& each : model.inputs) visit(each.source);
  while (!queue.empty()) {
    const FileNode& node = model.file.nodes()[queue.back()];
    queue.pop_back();
    for (const Source& source : node.inputs) visit(source);
  }
  std::vector<FileNode> nodes;
  for (size_t n = 0; n < seen.size(); ++n) {
    if (!seen[n]) continue;
    nodes.push_back(model.file.nodes()[n]);
    std::erase_if(nodes.back().inputs, [](const Source& source) { return source.control; });
  }
  return {std::move(nodes), model.file};
}

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& each : tensors) names.push_back(each.name);
  return names;
}

Graph graph_of(const SignatureGraph& model, const ImportOptions& options) {
  const std::optional<RaisedGraph> raised = raise_control_flow(model.file, /*drops_checks=*/true);
  std::vector<NamedTensor> named = model.outputs;
  std::vector<std::string> outputs;
  for (NamedTensor& output : named) {
    if (raised) output.source = raised->now(output.source);
    outputs.push_back(spell(output.source.node, output.source.index));
  }
  ReadGraph read = read_graph(only_data({raised ? raised->file : model.file, model.inputs, std::move(named)}), outputs,
                              {}, converters());
  name_inputs(read, model, options);
  read.foreign.name = "model";
  frontend::Converted converted = frontend::convert(read.foreign, converters());
  frontend::check_converted(read.foreign, converted, "`graft embed` makes engines of the parts around them, which run "
                                                     "inside TensorFlow");
  frontend::check_outputs(read.foreign, converted);
  frontend::name_borders(converted.graph, names_of(model.inputs), names_of(model.outputs));
  return std::move(converted.graph);
}

}  // namespace

bool is_model(std::span<const std::byte> bytes) { return !bytes.empty() && bytes[0] == kFirstNode; }

bool is_model(const std::string& path) {
  if (!folder_of(path).empty()) return true;
  if (!path.ends_with(".pb")) return false;
  const auto bytes = MappedFile::open(path);
  const auto head = bytes->bytes().empty() ? std::byte{} : bytes->bytes()[0];
  return head == kFirstNode || head == std::byte{0x12} || head == std::byte{0x22};  // nodes, functions, versions
}

Graph import_model(const std::string& path, const ImportOptions& options) {
  const std::string folder = folder_of(path);
  if (!folder.empty()) {
    GRAFT_USER_CHECK(std::filesystem::exists(folder + "/" + kFileName), kInvalidArgument,
                     fmt::format("the folder has no {}: it is no SavedModel; name a model's file, or the folder that "
                                 "the model was exported to", kFileName),
                     path);
  }
  try {
    GRAFT_USER_CHECK(folder.empty() || options.outputs.empty(), kInvalidArgument,
                     "a SavedModel says by its signature what it gives: choose one by signature", "outputs");
    GRAFT_USER_CHECK(!folder.empty() || (options.signature.empty() && options.tags.empty()), kInvalidArgument,
                     "a GraphDef has no signatures, and no tags: choose what it gives by outputs",
                     options.signature.empty() ? "tag" : "signature");
    if (!folder.empty()) return graph_of(read_saved_model(folder, options.signature, options.tags), options);
    const auto file = MappedFile::open(path);
    return graph_of(read_frozen(file->bytes(), file, options.outputs), options);
  } catch (const Error& error) {
    if (error.where().starts_with(folder.empty() ? path : folder)) throw;
    throw Error(error.kind(), error.message(),
                error.where().empty() ? path : fmt::format("{}: {}", path, error.where()));
  }
}

Graph import_model(std::span<const std::byte> bytes, const ImportOptions& options) {
  GRAFT_USER_CHECK(options.signature.empty() && options.tags.empty(), kInvalidArgument,
                   "a GraphDef has no signatures, and no tags: choose what it gives by outputs",
                   options.signature.empty() ? "tag" : "signature");
  const auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());  // constants lie in it
  return graph_of(read_frozen(*copy, copy, options.outputs), options);
}

}  // namespace graft::tensorflow
