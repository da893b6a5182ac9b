// SPDX-License-Identifier: Apache-2.0
#include "graph/infer.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "expr/interpreter.h"
#include "graph/custom_operator.h"
#include "graph/host_operator.h"
#include "graph/infer_control_flow.h"
#include "graph/op_def.h"
#include "graph/random_state.h"

namespace graft {
namespace {

constexpr int64_t kLargestContent = 1024;

bool can_have_content(DType type) { return is_integer(type) || type == DType::kBool; }

/// The number of elements when it is known and small.
std::optional<int64_t> small_count(const Shape& shape) {
  int64_t count = 1;
  for (const Size& size : shape) {
    const auto extent = size.as_constant();
    if (!extent || *extent < 0 || *extent > kLargestContent) return std::nullopt;
    count *= *extent;
    if (count > kLargestContent) return std::nullopt;
  }
  return count;
}

bool is_onnx(const Node& node, std::string_view op) { return node.domain.empty() && node.op == op; }

int64_t integer_or(const Node& node, std::string_view name, int64_t otherwise) {
  const auto it = node.attributes.find(name);
  const auto* value = it == node.attributes.end() ? nullptr : std::get_if<int64_t>(&it->second);
  return value ? *value : otherwise;
}

/// An index of Shape's `start` or `end`, counted from the end when negative, brought into [0, rank].
int64_t clamped(int64_t index, int64_t rank) { return std::clamp<int64_t>(index < 0 ? index + rank : index, 0, rank); }

/// Shape and Size do not read their input's elements: their result follows from its shape alone.
bool infer_shape_operator(Graph& graph, const Node& node) {
  if (!is_onnx(node, "Shape") && !is_onnx(node, "Size")) return false;
  if (node.inputs.size() != 1 || node.outputs.size() != 1 || node.inputs[0] == kNoValue ||
      node.outputs[0] == kNoValue) {
    throw Error(ErrorKind::kInvalidModel, fmt::format("{} takes one input and gives one output", node.op),
                fmt::format("node '{}'", node.name));
  }
  const auto& shape = graph.value(node.inputs[0]).shape;
  Value& result = graph.value(node.outputs[0]);
  result.type = DType::kInt64;
  if (!shape) return true;
  if (node.op == "Size") {
    result.shape = Shape{};
    result.content = std::vector<Size>{graph.derived.shortened(element_count(*shape))};
    return true;
  }
  const auto rank = static_cast<int64_t>(shape->size());
  const int64_t start = clamped(integer_or(node, "start", 0), rank);
  const int64_t end = std::max(start, clamped(integer_or(node, "end", rank), rank));
  result.content = std::vector<Size>(shape->begin() + start, shape->begin() + end);
  result.shape = Shape{Size(end - start)};
  return true;
}

/// Why the definition cannot run yet, or nothing.
std::optional<std::string> missing_knowledge(const Graph& graph, const Node& node) {
  if (!operator_of(node)) {
    return fmt::format("the operator {}{}{} has no definition", node.domain,
                       node.domain.empty() ? "" : "::", node.op);
  }
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) continue;
    const Value& value = graph.value(id);
    if (value.type == DType::kUndefined) return fmt::format("the type of its input '{}' is not known", value.name);
    if (!value.shape) return fmt::format("the rank of its input '{}' is not known", value.name);
  }
  return std::nullopt;
}

/// Fills `content` of small integer outputs by running the region over sizes.
void infer_content(Graph& graph, const Node& node, const NodeDefinition& definition) {
  const Region& region = definition.region;
  const bool worthwhile = std::any_of(region.outputs.begin(), region.outputs.end(), [&](int tensor) {
    const TensorDecl& decl = region.tensors[tensor];
    return can_have_content(decl.type) && small_count(decl.shape);
  });
  if (!worthwhile) return;
  std::vector<SymbolicContent> contents;
  for (const int input : definition.inputs) contents.push_back(known_content(graph.value(node.inputs[input])));
  const auto results = interpret_symbolically(region, contents);
  if (!results) return;
  for (size_t k = 0; k < definition.outputs.size() && k < results->size(); ++k) {
    const ValueId id = node.outputs[definition.outputs[k]];
    const TensorDecl& decl = region.tensors[region.outputs[k]];
    const auto count = small_count(decl.shape);
    if (id == kNoValue || !can_have_content(decl.type) || !count) continue;
    if (static_cast<int64_t>((*results)[k].size()) != *count) continue;
    std::vector<Size> content = (*results)[k];
    for (Size& element : content) element = graph.derived.shortened(element);
    graph.value(id).content = std::move(content);
  }
}

std::optional<std::string> run_definition(Graph& graph, const Node& node) {
  NodeDefinition definition;
  try {
    definition = define(node, graph);
    for (size_t k = 0; k < definition.outputs.size(); ++k) {
      const ValueId id = node.outputs[definition.outputs[k]];
      if (id == kNoValue) continue;
      const TensorDecl& decl = definition.region.tensors[definition.region.outputs[k]];
      Value& value = graph.value(id);
      value.type = decl.type;
      value.shape = decl.shape;
      for (Size& size : *value.shape) size = graph.derived.shortened(size);
      value.content.reset();
    }
    if (!is_drawn(node)) infer_content(graph, node, definition);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnsupported) return error.message();
    if (error.kind() != ErrorKind::kInvalidArgument) throw;
    // Sizes that overflow or contradict each other: in a graph, the model is to blame.
    throw Error(ErrorKind::kInvalidModel, error.message(), fmt::format("node '{}' ({})", node.name, node.op));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<Size>> known_content(const Value& value) {
  if (value.content || !value.constant) return value.content;
  const TensorData& data = *value.constant;
  if (!can_have_content(data.type()) || data.element_count() > kLargestContent) return std::nullopt;
  std::vector<Size> content;
  for (int64_t i = 0; i < data.element_count(); ++i) content.emplace_back(data.read_integer(i));
  return content;
}

namespace {

constexpr int kMostRounds = 4096;  // through bodies, for one node: loops in loops of changing sizes multiply

/// Infers one node, and bodies at most `rounds` times.
std::optional<std::string> infer_within(Graph& graph, int index, int& rounds) {
  const InferBody infer_body = [&rounds](Graph& body) {
    GRAFT_USER_CHECK(--rounds >= 0, kUnsupported,
                     "the sizes of its loops in loops take too many rounds to find; give fixed sizes, or nest less",
                     fmt::format("graph '{}'", body.name));
    for (size_t n = 0; n < body.nodes.size(); ++n) infer_within(body, static_cast<int>(n), rounds);
  };
  if (infer_control_flow(graph, index, infer_body)) return std::nullopt;
  const Node& node = graph.nodes[static_cast<size_t>(index)];
  if (infer_shape_operator(graph, node)) return std::nullopt;
  if (runs_on_host(node, graph)) return infer_host_node(graph, index);
  if (auto reason = missing_knowledge(graph, node)) {
    const std::shared_ptr<const OpDef> op = operator_of(node);
    const std::string fault = op ? operand_fault(*op, node, graph) : "";
    if (fault.empty()) return reason;
    throw Error(ErrorKind::kInvalidModel, fault, fmt::format("node '{}' ({})", node.name, node.op));
  }
  return run_definition(graph, node);
}

}  // namespace

std::optional<std::string> infer_node(Graph& graph, int index) {
  int rounds = kMostRounds;
  return infer_within(graph, index, rounds);
}

void infer_types(Graph& graph) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) infer_node(graph, static_cast<int>(n));
}

}  // namespace graft
