// SPDX-License-Identifier: Apache-2.0
#include "graph/evaluate_control_flow.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/evaluate_graph.h"

namespace graft {
namespace {

using Tensors = std::vector<TensorData>;

/// A body with the values it captures.
struct Body {
  std::shared_ptr<const Graph> graph;
  Tensors captured;
};

std::vector<int64_t> capture_counts(const Node& node) {
  const auto it = node.attributes.find("captures");
  const auto* counts = it == node.attributes.end() ? nullptr : std::get_if<std::vector<int64_t>>(&it->second);
  return counts ? *counts : std::vector<int64_t>();
}

/// The number of inputs that are the node's own, before the captures.
size_t own_inputs(const Node& node) {
  const auto counts = capture_counts(node);
  return node.inputs.size() - static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
}

/// The named body; its captures are those after the ones of the bodies before it in order of name.
Body body_of(const Node& node, std::string_view name, std::span<const TensorData> inputs) {
  const auto counts = capture_counts(node);
  size_t position = own_inputs(node), index = 0;
  for (const auto& [key, attribute] : node.attributes) {
    const auto* graph = std::get_if<std::shared_ptr<const Graph>>(&attribute);
    if (!graph) continue;
    const size_t count = index < counts.size() ? static_cast<size_t>(counts[index]) : 0;
    ++index;
    if (key == name) return {*graph, Tensors(inputs.begin() + position, inputs.begin() + position + count)};
    position += count;
  }
  throw Error(ErrorKind::kInvalidModel, fmt::format("{} has no graph '{}'", node.op, name),
              fmt::format("node '{}'", node.name));
}

Tensors run_body(const Body& body, Tensors arguments) {
  arguments.insert(arguments.end(), body.captured.begin(), body.captured.end());
  return evaluate_ordered(*body.graph, arguments);
}

/// The elements of equal tensors one after the other, along a new first axis.
TensorData stack(const Tensors& parts, const Value& element) {
  std::vector<int64_t> shape = {static_cast<int64_t>(parts.size())};
  if (parts.empty()) {
    for (const Size& size : element.shape.value_or(Shape())) shape.push_back(size.as_constant().value_or(0));
    return TensorData::zeros(element.type, shape);
  }
  shape.insert(shape.end(), parts[0].shape().begin(), parts[0].shape().end());
  TensorData result = TensorData::zeros(parts[0].type(), shape);
  const auto bytes = result.mutable_bytes();
  size_t position = 0;
  for (const TensorData& part : parts) {
    GRAFT_USER_CHECK(part.shape() == parts[0].shape() && bit_width(part.type()) % 8 == 0, kUnsupported,
                     "the results of its rounds are not tensors of one shape and whole bytes", "Loop");
    std::copy(part.bytes().begin(), part.bytes().end(), bytes.begin() + static_cast<std::ptrdiff_t>(position));
    position += part.bytes().size();
  }
  return result;
}

/// Loop(limit, condition, carried...) as ONNX defines it.
Tensors run_loop(const Node& node, std::span<const TensorData> inputs) {
  const Body body = body_of(node, "body", inputs);
  const int64_t limit = inputs[0] ? inputs[0].read_integer(0) : std::numeric_limits<int64_t>::max();
  bool going = !(own_inputs(node) > 1 && inputs[1]) || inputs[1].read_integer(0) != 0;
  const size_t carried_count = own_inputs(node) > 2 ? own_inputs(node) - 2 : 0;
  Tensors carried(inputs.begin() + std::min<size_t>(2, inputs.size()), inputs.begin() + 2 + carried_count);
  std::vector<Tensors> collected(body.graph->outputs.size() - 1 - carried_count);
  for (int64_t round = 0; round < limit && going; ++round) {
    Tensors arguments = {TensorData::from_values<int64_t>(DType::kInt64, {}, {round}),
                         TensorData::from_values<int64_t>(DType::kBool, {}, {1})};
    arguments.insert(arguments.end(), carried.begin(), carried.end());
    Tensors results = run_body(body, std::move(arguments));
    going = results[0].read_integer(0) != 0;
    for (size_t k = 0; k < carried_count; ++k) carried[k] = results[1 + k];
    for (size_t k = 0; k < collected.size(); ++k) collected[k].push_back(results[1 + carried_count + k]);
  }
  for (size_t k = 0; k < collected.size(); ++k) {
    carried.push_back(stack(collected[k], body.graph->value(body.graph->outputs[1 + carried_count + k])));
  }
  return carried;
}

}  // namespace

bool is_control_flow(const Node& node) { return node.domain.empty() && (node.op == "If" || node.op == "Loop"); }

std::vector<TensorData> evaluate_control_flow(const Node& node, std::span<const TensorData> inputs) {
  Tensors results;
  if (node.op == "Loop") {
    results = run_loop(node, inputs);
  } else {
    const bool taken = inputs[0].read_integer(0) != 0;
    results = run_body(body_of(node, taken ? "then_branch" : "else_branch", inputs), {});
  }
  results.resize(std::min(results.size(), node.outputs.size()));
  return results;
}

}  // namespace graft
