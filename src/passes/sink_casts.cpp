// SPDX-License-Identifier: Apache-2.0
// Casts that lose nothing move down, over operators that only move elements, so that those move fewer bytes:
// Reshape(Cast(x)) -> Cast(Reshape(x)); those to a narrower float move up, to what computes the elements, for the same
// reason: Cast(Reshape(x)) -> Reshape(Cast(x)), and x is cast where all parts of it are. Cast(Cast(x)) becomes Cast(x)
// when the first loses nothing.
#include <algorithm>

#include "passes/edit.h"
#include "passes/node_behaviour.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

/// Bits of the significand with the hidden one, and of the exponent.
struct FloatFormat {
  int significand, exponent;
};

std::optional<FloatFormat> format_of(DType type) {
  switch (type) {
    case DType::kFloat64:
      return FloatFormat{53, 11};
    case DType::kFloat32:
      return FloatFormat{24, 8};
    case DType::kFloat16:
      return FloatFormat{11, 5};
    case DType::kBFloat16:
      return FloatFormat{8, 8};
    default:
      return std::nullopt;
  }
}

/// Whether every value of `from` is one of `to`, so that a cast there and on is a cast.
bool holds_all_of(DType to, DType from) {
  if (from == DType::kUndefined || to == DType::kUndefined) return false;
  const auto target = format_of(to);
  if (from == DType::kBool) return is_integer(to) || target;
  if (const auto source = format_of(from)) {
    return target && target->significand >= source->significand && target->exponent >= source->exponent;
  }
  if (!is_integer(from)) return false;
  const int magnitude = bit_width(from) - (is_unsigned(from) ? 0 : 1);
  if (target) return target->significand >= magnitude && target->exponent >= 8;
  if (!is_integer(to) || (is_unsigned(to) && !is_unsigned(from))) return false;
  return bit_width(to) - (is_unsigned(to) ? 0 : 1) >= magnitude;
}

/// The Cast that computes the value without loss, or null.
const Node* lossless_cast(const Graph& graph, ValueId value) {
  const Node* cast = producer(graph, value);
  if (!cast || !is_op(*cast, {"Cast"})) return nullptr;
  return holds_all_of(graph.value(value).type, graph.value(cast->inputs[0]).type) ? cast : nullptr;
}

/// Cast(Cast(x)) -> Cast(x), or x when it comes back to its type
bool merge_casts(Graph& graph, int index) {
  const Node& node = graph.nodes[index];
  const Node* inner = is_op(node, {"Cast"}) ? lossless_cast(graph, node.inputs[0]) : nullptr;
  if (!inner) return false;
  const ValueId x = inner->inputs[0];
  if (graph.value(x).type == graph.value(node.outputs[0]).type) return bypass(graph, index, x);
  graph.nodes[index].inputs[0] = x;
  return true;
}

/// move(Cast(x)) -> Cast(move(x))
bool sink_below_movement(Graph& graph, const Matcher& matcher, int index) {
  const Node& move = graph.nodes[index];
  const ValueId wide = input(move, 0);
  const Node* cast = lossless_cast(graph, wide);
  if (!cast || matcher.only_consumer(wide) != index || !move.domain.empty()) return false;
  const ValueId x = cast->inputs[0];
  const DType narrow = graph.value(x).type;
  if (bit_width(narrow) >= bit_width(graph.value(wide).type) || !moves_elements(graph, move, narrow)) return false;
  std::vector<ValueId> inputs = move.inputs;
  inputs[0] = x;
  const Attributes conversion = cast->attributes;
  const int cast_index = graph.value(wide).producer;
  const ValueId moved = append_node(graph, move.name, move.op, std::move(inputs), graph.value(x).type,
                                    graph.value(move.outputs[0]).shape, move.attributes);
  replace_node(graph, index, "Cast", {moved}, conversion);
  std::swap(graph.nodes[index].name, graph.nodes.back().name);
  std::swap(graph.nodes[index].name, graph.nodes[cast_index].name);
  return true;
}

/// Cast(move(x)) -> move(Cast(x)), to a narrower float and over what moves every element
bool raise_above_movement(Graph& graph, const Matcher& matcher, int index) {
  const Node& cast = graph.nodes[index];
  if (!is_op(cast, {"Cast"})) return false;
  const ValueId wide = cast.inputs[0];
  const DType from = graph.value(wide).type, to = graph.value(cast.outputs[0]).type;
  if (!is_float(from) || !is_float(to) || bit_width(to) >= bit_width(from)) return false;
  const Node* move = producer(graph, wide);
  if (!move || !move->domain.empty() || matcher.only_consumer(wide) != index) return false;
  if (!moves_elements(graph, *move, to)) return false;
  const auto &before = graph.value(move->inputs[0]).shape, &after = graph.value(wide).shape;
  if (!before || !after || element_count(*before) != element_count(*after)) return false;
  const int move_index = graph.value(wide).producer;
  const std::string op = move->op;
  const Attributes attributes = move->attributes;
  std::vector<ValueId> inputs = move->inputs;
  inputs[0] = append_node(graph, cast.name, "Cast", {inputs[0]}, to, graph.value(inputs[0]).shape, cast.attributes);
  replace_node(graph, index, op, std::move(inputs), attributes);
  std::swap(graph.nodes[index].name, graph.nodes[move_index].name);
  return true;
}

/// The type to which all that reads the results of a node casts them, narrower floats than `from`; else kUndefined.
DType narrowed_to(const Graph& graph, const Matcher& matcher, const Node& part, DType from) {
  DType to = DType::kUndefined;
  for (const ValueId result : part.outputs) {
    const int reader = matcher.is_new(result) ? -1 : matcher.only_consumer(result);
    if (reader < 0 || !is_op(graph.nodes[reader], {"Cast"})) return DType::kUndefined;
    const DType type = graph.value(graph.nodes[reader].outputs[0]).type;
    if (!is_float(type) || bit_width(type) >= bit_width(from) || (to != DType::kUndefined && to != type)) {
      return DType::kUndefined;
    }
    to = type;
  }
  return to;
}

/// Cast(part(x)) for all parts of x -> part(Cast(x)): x is cast once, where it is computed
bool raise_above_parts(Graph& graph, const Matcher& matcher, int index) {
  const ValueId x = input(graph.nodes[index], 0);
  if (x == kNoValue || matcher.is_new(x) || graph.value(x).producer < 0 || !graph.value(x).shape) return false;
  const DType from = graph.value(x).type;
  const std::vector<int> parts = matcher.consumers(x);
  if (!is_float(from) || parts.empty() || parts[0] != index) return false;
  if (std::find(graph.outputs.begin(), graph.outputs.end(), x) != graph.outputs.end()) return false;
  DType to = DType::kUndefined;
  Size moved = 0;
  for (const int part : parts) {
    const Node& node = graph.nodes[part];
    const DType type = narrowed_to(graph, matcher, node, from);
    if (type == DType::kUndefined || (to != DType::kUndefined && type != to)) return false;
    if (!node.domain.empty() || std::count(node.inputs.begin(), node.inputs.end(), x) != 1) return false;
    if (node.inputs[0] != x || (!is_op(node, {"Split"}) && !moves_elements(graph, node, type))) return false;
    for (const ValueId result : node.outputs) {
      if (!graph.value(result).shape) return false;
      moved = moved + element_count(*graph.value(result).shape);
    }
    to = type;
  }
  if (!(moved == element_count(*graph.value(x).shape))) return false;  // parts that nobody reads would be cast too
  const int first = matcher.only_consumer(graph.nodes[index].outputs[0]);
  const Attributes conversion = graph.nodes[first].attributes;
  const ValueId narrow = append_node(graph, graph.nodes[first].name, "Cast", {x}, to, graph.value(x).shape, conversion);
  for (const int part : parts) {
    graph.nodes[part].inputs[0] = narrow;
    for (const ValueId result : graph.nodes[part].outputs) {
      graph.value(result).type = to;
      bypass(graph, matcher.only_consumer(result), result);
    }
  }
  return true;
}

}  // namespace

bool sink_casts(Graph& graph, const PassContext&) {
  return rewrite_nodes(graph, [](Graph& g, const Matcher& matcher, int index) {
    return merge_casts(g, index) || sink_below_movement(g, matcher, index) || raise_above_movement(g, matcher, index) ||
           raise_above_parts(g, matcher, index);
  });
}

}  // namespace graft::passes
