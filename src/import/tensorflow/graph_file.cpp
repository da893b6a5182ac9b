// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/graph_file.h"

#include <charconv>
#include <climits>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "import/tensorflow/graph.pb.h"

namespace graft::tensorflow {
namespace {

using graft_tensorflow::AttrEntry;
using graft_tensorflow::NodeDef;

constexpr int kNode = 1, kLibrary = 2, kVersions = 4;  // fields of GraphDef
constexpr int kFunction = 1, kSignature = 1;         // of FunctionDefLibrary and FunctionDef
constexpr int kMostOutputs = 1 << 20;

/// What bytes that are no graph may be, from their first characters.
std::string guess_format(std::span<const std::byte> bytes) {
  const std::string_view head = text_of(bytes.first(std::min<size_t>(bytes.size(), 64)));
  if (head.empty()) return "it is empty";
  if (head.starts_with("PK")) return "this is a zip archive (a .keras file?): freeze the model to a GraphDef first";
  if (head.starts_with("node {") || head.starts_with("node{") || head.starts_with("versions {")) {
    return "this is a graph as text: write it in binary form, tf.io.write_graph(..., as_text=False)";
  }
  if (head.starts_with("\x08\x01\x12")) {
    return "this seems to be a SavedModel: name its folder to `graft compile`, or freeze it to a GraphDef first "
           "(convert_variables_to_constants_v2)";
  }
  return "this is not a GraphDef, or it is damaged or was cut short: export or download it again";
}

}  // namespace

Source parse_source(std::string_view text, const std::string& where) {
  Source source;
  if (text.starts_with('^')) return {.node = std::string(text.substr(1)), .control = true};
  const size_t colon = text.rfind(':');
  source.node = std::string(text.substr(0, colon));
  if (colon != std::string_view::npos) {
    const char* end = text.data() + text.size();
    const auto [stop, fault] = std::from_chars(text.data() + colon + 1, end, source.index);
    GRAFT_USER_CHECK(fault == std::errc() && stop == end && source.index >= 0 && source.index < kMostOutputs,
                     kInvalidModel, fmt::format("'{}' names no output of a node", text), where);
  }
  return source;
}

std::string spell(std::string_view node, int index) {
  return index == 0 ? std::string(node) : fmt::format("{}:{}", node, index);
}

const graft_tensorflow::AttrValue* FileNode::attribute(std::string_view wanted) const {
  for (const AttrEntry& entry : message->attr()) {
    if (entry.key() == wanted) return &entry.value();
  }
  return nullptr;
}

FileNode parse_node(std::span<const std::byte> bytes, const std::string& where) {
  auto message = std::make_shared<NodeDef>();
  GRAFT_USER_CHECK(message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())), kInvalidModel,
                   fmt::format("{} is damaged; {}", where, guess_format(bytes)), "graph");
  FileNode node{.name = message->name(), .op = message->op(), .device = message->device(), .inputs = {},
                .message = nullptr, .bytes = bytes};
  const std::string named = fmt::format("node '{}'", node.name);
  GRAFT_USER_CHECK(!node.name.empty() && !node.op.empty(), kInvalidModel,
                   node.name.empty() ? guess_format(bytes) : "it has no operator", named);
  for (const std::string& input : message->input()) node.inputs.push_back(parse_source(input, named));
  for (AttrEntry& entry : *message->mutable_attr()) {  // elements are read when somebody asks, from where they lie
    if (entry.value().has_tensor()) entry.mutable_value()->mutable_tensor()->clear_tensor_content();
  }
  node.message = std::move(message);
  return node;
}

GraphFile::GraphFile(std::vector<FileNode> nodes, const GraphFile& made_of)
    : GraphFile(std::move(nodes), made_of, made_of.made_functions_) {}

GraphFile::GraphFile(std::vector<FileNode> nodes, const GraphFile& made_of, MadeFunctions functions)
    : bytes_(made_of.bytes_), owner_(made_of.owner_), nodes_(std::move(nodes)), functions_(made_of.functions_),
      made_functions_(std::move(functions)), producer_(made_of.producer_) {
  for (size_t n = 0; n < nodes_.size(); ++n) by_name_.emplace(nodes_[n].name, static_cast<int>(n));
  check_references();
}

GraphFile::GraphFile(std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
    : bytes_(bytes), owner_(std::move(owner)) {
  GRAFT_USER_CHECK(bytes.size() <= INT_MAX, kInvalidModel, "the graph is larger than the 2 GiB that its format allows",
                   "graph");
  const auto fields = wire_fields(bytes);
  GRAFT_USER_CHECK(fields && !bytes.empty(), kInvalidModel, guess_format(bytes), "graph");
  for (const WireField& field : *fields) {
    GRAFT_USER_CHECK(field.number != kNode || field.has_payload, kInvalidModel, guess_format(bytes), "graph");
    if (field.number == kLibrary && field.has_payload) read_functions(field.payload);
    if (field.number == kVersions && field.has_payload) read_versions(field.payload);
    if (field.number == kNode) read_node(field.payload);
    fields_.push_back({field.number == kNode ? static_cast<int>(nodes_.size()) - 1 : -1, field.whole});
  }
  GRAFT_USER_CHECK(!nodes_.empty(), kInvalidModel, guess_format(bytes), "graph");
  check_references();
}

int GraphFile::find(std::string_view node) const {
  const auto found = by_name_.find(node);
  return found == by_name_.end() ? -1 : found->second;
}

void GraphFile::read_node(std::span<const std::byte> bytes) {
  FileNode node = parse_node(bytes, fmt::format("message number {}", nodes_.size()));
  const bool fresh = by_name_.emplace(node.name, static_cast<int>(nodes_.size())).second;
  GRAFT_USER_CHECK(fresh, kInvalidModel, "there are two nodes of this name", fmt::format("node '{}'", node.name));
  nodes_.push_back(std::move(node));
}

void GraphFile::read_versions(std::span<const std::byte> bytes) {
  graft_tensorflow::VersionDef read;
  GRAFT_USER_CHECK(read.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())), kInvalidModel,
                   guess_format(bytes_), "versions");
  producer_ = read.producer();
}

void GraphFile::read_functions(std::span<const std::byte> library) {
  const auto fields = wire_fields(library);
  GRAFT_USER_CHECK(fields, kInvalidModel, guess_format(bytes_), "function library");
  for (const WireField& field : *fields) {
    if (field.number != kFunction || !field.has_payload) continue;
    graft_tensorflow::OpDef signature;
    for (const WireField& part : wire_fields(field.payload).value_or(std::vector<WireField>{})) {
      if (part.number != kSignature || !part.has_payload) continue;
      GRAFT_USER_CHECK(signature.MergeFromString({reinterpret_cast<const char*>(part.payload.data()),
                                                  part.payload.size()}),
                       kInvalidModel, guess_format(bytes_), "function library");
    }
    functions_.emplace(signature.name(), field.payload);
  }
}

void GraphFile::check_references() const {
  for (const FileNode& node : nodes_) {
    const std::string where = fmt::format("node '{}'", node.name);
    for (const Source& source : node.inputs) {
      GRAFT_USER_CHECK(by_name_.contains(source.node), kInvalidModel,
                       fmt::format("it takes '{}', which the graph does not have", source.node), where);
    }
    for (const AttrEntry& entry : node.message->attr()) {
      if (!entry.value().has_func() || entry.value().func().name().empty()) continue;
      const std::string& function = entry.value().func().name();
      GRAFT_USER_CHECK(functions_.contains(function) || made_functions_.contains(function), kInvalidModel,
                       fmt::format("it calls the function '{}', which the graph's library does not have: export the "
                                   "graph with its functions, or inlined", function),
                       where);
    }
  }
}

}  // namespace graft::tensorflow
