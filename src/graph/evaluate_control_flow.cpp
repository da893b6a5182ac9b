// SPDX-License-Identifier: Apache-2.0
#include "graph/evaluate_control_flow.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/run_limits.h"
#include "graph/bodies.h"
#include "graph/evaluate_graph.h"

namespace graft {
namespace {

using Tensors = std::vector<TensorData>;

/// A body with the values it captures.
struct Body {
  std::shared_ptr<const Graph> graph;
  Tensors captured;
};

Body body_of(const Node& node, std::string_view name, std::span<const TensorData> inputs) {
  for (const NodeBody& body : bodies_of(node)) {
    if (body.attribute != name) continue;
    const auto captured = inputs.subspan(body.first_capture, body.captures);
    return {body.graph, Tensors(captured.begin(), captured.end())};
  }
  throw Error(ErrorKind::kInvalidModel, fmt::format("{} has no graph '{}'", node.op, name),
              fmt::format("node '{}'", node.name));
}

Tensors run_body(const Body& body, Tensors arguments) {
  stop_if_requested();
  arguments.insert(arguments.end(), body.captured.begin(), body.captured.end());
  return evaluate_ordered(*body.graph, arguments);
}

/// The extents before and behind an axis, the elements along which move together.
struct Around {
  int64_t before = 1, behind = 1;
};
Around around(const std::vector<int64_t>& shape, size_t axis) {
  Around result;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d != axis) (d < axis ? result.before : result.behind) *= shape[d];
  }
  return result;
}

void require_whole_bytes(const TensorData& data, const Node& node) {
  GRAFT_USER_CHECK(data.type() != DType::kString && bit_width(data.type()) % 8 == 0, kUnsupported,
                   fmt::format("its rounds take or give elements of {}, which are no whole bytes",
                               name_of(data.type())), fmt::format("node '{}' ({})", node.name, node.op));
}

/// Copies part `index` of `whole` along an axis out of it, or into it.
void copy_part(std::span<std::byte> whole, std::span<std::byte> part, const Around& sizes, int64_t extent,
               int64_t index, int64_t element_bytes, bool into) {
  const auto bytes = static_cast<size_t>(sizes.behind * element_bytes);
  for (int64_t i = 0; i < sizes.before; ++i) {
    std::byte* at = whole.data() + static_cast<size_t>(i * extent + index) * bytes;
    std::byte* here = part.data() + static_cast<size_t>(i) * bytes;
    std::copy_n(into ? here : at, bytes, into ? at : here);
  }
}

/// The shape of a result of a body that did not run: what the shapes of its inputs say, and zero where they do not.
Value unseen_element(const Graph& body, size_t output, const Tensors& last_inputs) {
  std::map<std::string, Size, std::less<>> known;
  for (size_t i = 0; i < last_inputs.size(); ++i) {
    const Value& input = body.value(body.inputs[body.inputs.size() - last_inputs.size() + i]);
    const Shape shape = input.shape.value_or(Shape());
    for (size_t axis = 0; axis < shape.size() && axis < last_inputs[i].shape().size(); ++axis) {
      if (const auto symbol = shape[axis].as_symbol()) known[*symbol] = last_inputs[i].shape()[axis];
    }
  }
  Value element = body.value(body.outputs[output]);
  for (const DerivedSize& derived : body.derived.list()) known[derived.symbol] = derived.value.substitute(known);
  if (element.shape) {
    for (Size& size : *element.shape) size = size.substitute(known);
  }
  return element;
}

/// The elements of equal tensors along a new axis, from last to first where that is asked for.
TensorData stack(const Tensors& parts, const Value& element, size_t axis, bool reversed, const Node& node) {
  const auto length = static_cast<int64_t>(parts.size());
  std::vector<int64_t> shape;
  if (parts.empty()) {
    for (const Size& size : element.shape.value_or(Shape())) shape.push_back(size.as_constant().value_or(0));
  } else {
    shape = parts[0].shape();
  }
  GRAFT_USER_CHECK(axis <= shape.size(), kInvalidModel, "an axis of its outputs is not one of the result",
                   fmt::format("node '{}' ({})", node.name, node.op));
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), length);
  TensorData result = TensorData::zeros(parts.empty() ? element.type : parts[0].type(), shape);
  if (parts.empty()) return result;
  require_whole_bytes(parts[0], node);
  for (int64_t i = 0; i < length; ++i) {
    TensorData part = parts[static_cast<size_t>(i)];
    GRAFT_USER_CHECK(part.shape() == parts[0].shape(), kInvalidArgument,
                     fmt::format("a result that is collected is {} in one round and {} in another",
                                 describe(parts[0]), describe(part)),
                     fmt::format("node '{}' ({})", node.name, node.op));
    copy_part(result.mutable_bytes(), part.mutable_bytes(), around(shape, axis), length, reversed ? length - 1 - i : i,
              bit_width(part.type()) / 8, true);
  }
  return result;
}

/// An element of the shape that the body declares for its input, where that has ones only.
TensorData one_element(DType type, int64_t element, const Value& input) {
  std::vector<int64_t> shape;
  for (const Size& size : input.shape.value_or(Shape())) {
    if (size.is(1)) shape.push_back(1);
  }
  return TensorData::from_values<int64_t>(type, shape, {element});
}

/// Loop(limit, condition, carried...) as ONNX defines it.
Tensors run_loop(const Node& node, std::span<const TensorData> inputs) {
  const Body body = body_of(node, "body", inputs);
  const size_t own = own_input_count(node);
  const int64_t limit = inputs[0] ? inputs[0].read_integer(0) : std::numeric_limits<int64_t>::max();
  bool going = !inputs[1] || inputs[1].read_integer(0) != 0;
  const size_t carried_count = own - 2;
  Tensors carried(inputs.begin() + 2, inputs.begin() + static_cast<std::ptrdiff_t>(own));
  std::vector<Tensors> collected(body.graph->outputs.size() - 1 - carried_count);
  for (int64_t round = 0; round < limit && going; ++round) {
    Tensors arguments = {one_element(DType::kInt64, round, body.graph->value(body.graph->inputs[0])),
                         one_element(DType::kBool, 1, body.graph->value(body.graph->inputs[1]))};
    arguments.insert(arguments.end(), carried.begin(), carried.end());
    Tensors results = run_body(body, std::move(arguments));
    going = results[0].read_integer(0) != 0;
    for (size_t k = 0; k < carried_count; ++k) carried[k] = results[1 + k];
    for (size_t k = 0; k < collected.size(); ++k) collected[k].push_back(results[1 + carried_count + k]);
  }
  Tensors last(carried);
  last.insert(last.end(), body.captured.begin(), body.captured.end());
  for (size_t k = 0; k < collected.size(); ++k) {
    const Value element = unseen_element(*body.graph, 1 + carried_count + k, last);
    carried.push_back(stack(collected[k], element, 0, false, node));
  }
  return carried;
}

/// The k-th of a list of an attribute, or zero.
int64_t listed(const Node& node, std::string_view name, size_t k) {
  const auto it = node.attributes.find(name);
  const auto* list = it == node.attributes.end() ? nullptr : std::get_if<std::vector<int64_t>>(&it->second);
  return list && k < list->size() ? (*list)[k] : 0;
}

size_t axis_of(const Node& node, std::string_view name, size_t k, size_t rank) {
  int64_t axis = listed(node, name, k);
  if (axis < 0) axis += static_cast<int64_t>(rank);
  GRAFT_USER_CHECK(axis >= 0 && axis < static_cast<int64_t>(rank), kInvalidModel,
                   fmt::format("axis {} of '{}' is outside of {} axes", listed(node, name, k), name, rank),
                   fmt::format("node '{}' (Scan)", node.name));
  return static_cast<size_t>(axis);
}

/// Part `index` of a tensor along an axis, without that axis.
TensorData part_of(const TensorData& whole, size_t axis, int64_t index, const Node& node) {
  require_whole_bytes(whole, node);
  std::vector<int64_t> shape = whole.shape();
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  TensorData part = TensorData::zeros(whole.type(), shape), source = whole;
  copy_part(source.mutable_bytes(), part.mutable_bytes(), around(whole.shape(), axis), whole.shape()[axis], index,
            bit_width(whole.type()) / 8, false);
  return part;
}

/// Scan(states..., scanned...) as ONNX defines it from opset 9 on.
Tensors run_scan(const Node& node, std::span<const TensorData> inputs) {
  const Body body = body_of(node, "body", inputs);
  const auto it = node.attributes.find("num_scan_inputs");
  const auto* count = it == node.attributes.end() ? nullptr : std::get_if<int64_t>(&it->second);
  const size_t own = own_input_count(node);
  GRAFT_USER_CHECK(count && *count > 0 && static_cast<size_t>(*count) <= own, kInvalidModel,
                   "num_scan_inputs does not fit its inputs", fmt::format("node '{}' (Scan)", node.name));
  const size_t states = own - static_cast<size_t>(*count), scanned = static_cast<size_t>(*count);
  Tensors state(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(states));
  const auto axis = [&](size_t k) { return axis_of(node, "scan_input_axes", k, inputs[states + k].shape().size()); };
  const int64_t length = inputs[states].shape()[axis(0)];
  for (size_t k = 0; k < scanned; ++k) {
    GRAFT_USER_CHECK(inputs[states + k].shape()[axis(k)] == length, kInvalidArgument,
                     "its inputs that are scanned differ in length", fmt::format("node '{}' (Scan)", node.name));
  }
  std::vector<Tensors> collected(body.graph->outputs.size() - states);
  for (int64_t round = 0; round < length; ++round) {
    Tensors arguments = state;
    for (size_t k = 0; k < scanned; ++k) {
      const int64_t index = listed(node, "scan_input_directions", k) ? length - 1 - round : round;
      arguments.push_back(part_of(inputs[states + k], axis(k), index, node));
    }
    Tensors results = run_body(body, std::move(arguments));
    for (size_t k = 0; k < states; ++k) state[k] = results[k];
    for (size_t k = 0; k < collected.size(); ++k) collected[k].push_back(results[states + k]);
  }
  for (size_t k = 0; k < collected.size(); ++k) {
    const Value element = unseen_element(*body.graph, states + k, body.captured);
    const size_t rank = collected[k].empty() ? element.shape.value_or(Shape()).size() : collected[k][0].shape().size();
    state.push_back(stack(collected[k], element, axis_of(node, "scan_output_axes", k, rank + 1),
                          listed(node, "scan_output_directions", k) != 0, node));
  }
  return state;
}

}  // namespace

bool has_evaluated_bodies(const Node& node) {
  return is_control_flow(node) || (node.domain.empty() && node.op == "Scan");
}

std::vector<TensorData> evaluate_control_flow(const Node& node, std::span<const TensorData> inputs) {
  Tensors results;
  if (node.op == "Loop") {
    results = run_loop(node, inputs);
  } else if (node.op == "Scan") {
    results = run_scan(node, inputs);
  } else {
    const bool taken = inputs[0].read_integer(0) != 0;
    results = run_body(body_of(node, taken ? "then_branch" : "else_branch", inputs), {});
  }
  results.resize(std::min(results.size(), node.outputs.size()));
  return results;
}

}  // namespace graft
