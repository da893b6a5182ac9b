// SPDX-License-Identifier: Apache-2.0
// f(Conv(x, A) + a), f(Conv(x, B) + b), ... -> Split(f(Conv(x, [A B ...]) + [a b ...])), as for the branches of an
// Inception module: x is read once, and what reads a branch reads its channels where they lie. f is what each branch
// computes behind its convolution element by element, or nothing.
#include <algorithm>
#include <map>

#include "passes/edit.h"
#include "passes/node_behaviour.h"
#include "passes/parallel_products.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

/// Parts of whole vectors stay aligned in the joint result; those of half ones go behind them.
constexpr int64_t kVector = 16, kHalfVector = 8;
/// Wider convolutions fill the machine by themselves.
constexpr int64_t kWidestPart = 512;

/// A node of f: its operands are constants of one element, or results so far, of which number 0 is the convolution's.
struct Link {
  int node = -1;
  std::vector<int64_t> operands;  ///< results by number, constants by -2 - id, kNoValue where left out
};

/// What a branch computes behind its convolution.
struct Tail {
  std::vector<Link> links;
  ValueId result = kNoValue;
};

/// One convolution with what follows it.
struct Part {
  int conv = -1;
  int64_t channels = 0;
  Tail tail;
};

/// The node as the next link behind these results; nothing when it reads anything else.
std::optional<Link> link_of(const Graph& graph, const std::vector<ValueId>& results, int index) {
  const Node& node = graph.nodes[index];
  if (!node.domain.empty() || !is_elementwise(graph, node)) return std::nullopt;
  if (!same_shape(graph, results.front(), node.outputs[0])) return std::nullopt;
  Link link{.node = index, .operands = {}};
  for (const ValueId operand : node.inputs) {
    const auto found = std::find(results.begin(), results.end(), operand);
    const TensorData* constant = constant_of(graph, operand);
    if (found == results.end() && operand != kNoValue && (!constant || constant->element_count() != 1)) {
      return std::nullopt;
    }
    if (operand == kNoValue || found == results.end()) {
      link.operands.push_back(operand == kNoValue ? kNoValue : -2 - int64_t{operand});
    } else {
      link.operands.push_back(found - results.begin());
    }
  }
  return link;
}

/// The first reader, in the graph's order, of a result that is no link yet; -1 where there is none.
int next_reader(const Matcher& matcher, const std::vector<ValueId>& results, const std::vector<Link>& links) {
  int next = -1;
  for (const ValueId result : results) {
    for (const int reader : matcher.consumers(result)) {
      const bool known = std::any_of(links.begin(), links.end(), [&](const Link& link) { return link.node == reader; });
      if (!known && (next < 0 || reader < next)) next = reader;
    }
  }
  return next;
}

/// Whether all results but the last are read by the links alone.
bool is_whole(const Graph& graph, const Matcher& matcher, const std::vector<ValueId>& results,
              const std::vector<Link>& links) {
  return std::all_of(results.begin(), results.end() - 1, [&](ValueId result) {
    const auto& readers = matcher.consumers(result);
    return !graph.is_output(result) && std::all_of(readers.begin(), readers.end(), [&](int reader) {
      return std::any_of(links.begin(), links.end(), [&](const Link& link) { return link.node == reader; });
    });
  });
}

/// The longest tail behind the value that leaves one result.
Tail tail_of(const Graph& graph, const Matcher& matcher, ValueId value) {
  constexpr size_t kLongest = 8;
  Tail tail{.links = {}, .result = value};
  std::vector<ValueId> results = {value};
  std::vector<Link> links;
  while (links.size() < kLongest) {
    const int next = next_reader(matcher, results, links);
    const auto link = next < 0 ? std::nullopt : link_of(graph, results, next);
    if (!link) break;
    links.push_back(*link);
    results.push_back(graph.nodes[next].outputs[0]);
    if (is_whole(graph, matcher, results, links)) tail = {links, results.back()};
  }
  return tail;
}

/// Whether a single map reads the result, of other tensors too: it runs with the branch's own convolution.
bool is_finished_by_a_map(const Graph& graph, const Matcher& matcher, ValueId result) {
  const int reader = matcher.only_consumer(result);
  return reader >= 0 && is_elementwise(graph, graph.nodes[reader]);
}

/// Whether the input is left out, or a constant that the node alone reads.
bool is_own_constant(const Graph& graph, const Matcher& matcher, ValueId id) {
  return id == kNoValue || (constant_of(graph, id) && matcher.consumers(id).size() == 1 && !graph.is_output(id));
}

std::optional<Part> part_of(const Graph& graph, const Matcher& matcher, int index) {
  const Node& node = graph.nodes[index];
  if (!is_op(node, {"Conv"}) || integer(node, "group", 1) != 1) return std::nullopt;
  const TensorData* weights = constant_of(graph, node.inputs[1]);
  if (!weights || weights->rank() < 3 || !is_float(weights->type()) || bit_width(weights->type()) % 8) {
    return std::nullopt;
  }
  if (!is_own_constant(graph, matcher, node.inputs[1])) return std::nullopt;
  if (input(node, 2) != kNoValue && !constant_of(graph, node.inputs[2])) return std::nullopt;
  Part part{.conv = index, .channels = weights->shape()[0], .tail = {}};
  if (part.channels == 0 || part.channels > kWidestPart || part.channels % kHalfVector != 0) return std::nullopt;
  if (rank_of(graph, node.outputs[0]) < 3) return std::nullopt;
  part.tail = tail_of(graph, matcher, node.outputs[0]);
  // A result of the model would have to be copied out of the joint one.
  if (graph.is_output(part.tail.result) || matcher.consumers(part.tail.result).empty()) return std::nullopt;
  if (is_finished_by_a_map(graph, matcher, part.tail.result)) return std::nullopt;
  return part;
}

/// A list of numbers per window, spelled out or left out.
std::vector<int64_t> window_numbers(const Node& node, std::string_view attribute, size_t count, int64_t otherwise) {
  const std::vector<int64_t> given = integers(node, attribute);
  return given.empty() ? std::vector<int64_t>(count, otherwise) : given;
}

/// Whether both slide the same window over the same tensor in the same way.
bool same_window(const Graph& graph, const Node& a, const Node& b) {
  const TensorData &first = *constant_of(graph, a.inputs[1]), &second = *constant_of(graph, b.inputs[1]);
  if (a.inputs[0] != b.inputs[0] || first.type() != second.type() || first.rank() != second.rank()) return false;
  if (!std::equal(first.shape().begin() + 1, first.shape().end(), second.shape().begin() + 1)) return false;
  const auto windows = static_cast<size_t>(first.rank()) - 2;
  const auto same = [&](std::string_view attribute, size_t count, int64_t otherwise) {
    return window_numbers(a, attribute, count, otherwise) == window_numbers(b, attribute, count, otherwise);
  };
  return text(a, "auto_pad", "NOTSET") == text(b, "auto_pad", "NOTSET") && same("strides", windows, 1) &&
         same("dilations", windows, 1) && same("pads", 2 * windows, 0);
}

bool same_tail(const Graph& graph, const Tail& a, const Tail& b) {
  return std::equal(a.links.begin(), a.links.end(), b.links.begin(), b.links.end(), [&](const Link& x, const Link& y) {
    const Node &first = graph.nodes[x.node], &second = graph.nodes[y.node];
    return first.op == second.op && x.operands == y.operands && same_attributes(first.attributes, second.attributes);
  });
}

/// The biases side by side, zeros where there is none; nothing when there is none at all.
std::optional<TensorData> join_biases(const Graph& graph, const std::vector<Part>& parts, DType type) {
  std::vector<TensorData> zeros;
  zeros.reserve(parts.size());
  std::vector<const TensorData*> biases;
  bool any = false;
  for (const Part& part : parts) {
    const TensorData* bias = constant_of(graph, input(graph.nodes[part.conv], 2));
    any |= bias != nullptr;
    if (!bias) zeros.push_back(TensorData::zeros(type, {part.channels}));
    biases.push_back(bias ? bias : &zeros.back());
  }
  if (!any) return std::nullopt;
  return join_constants(biases, 0);
}

/// The first part's tail once more, behind the joint convolution.
ValueId append_tail(Graph& graph, const Tail& tail, ValueId joint, const Shape& shape) {
  std::vector<ValueId> results = {joint};
  for (const Link& link : tail.links) {
    const Node node = graph.nodes[link.node];
    std::vector<ValueId> operands;
    for (const int64_t operand : link.operands) {
      if (operand >= 0) {
        operands.push_back(results[static_cast<size_t>(operand)]);
      } else {
        operands.push_back(operand == kNoValue ? kNoValue : static_cast<ValueId>(-2 - operand));
      }
    }
    const DType type = graph.value(node.outputs[0]).type;
    results.push_back(append_node(graph, node.name + "/merged", node.op, operands, type, shape, node.attributes));
    std::swap(graph.nodes.back().name, graph.nodes[link.node].name);
  }
  return results.back();
}

/// The names of all convolutions, by which a person finds them in a profile.
std::string joint_name(const Graph& graph, const std::vector<Part>& parts) {
  std::string name;
  for (const Part& part : parts) name += (name.empty() ? "" : " + ") + graph.nodes[part.conv].name;
  return name;
}

void merge(Graph& graph, const std::vector<Part>& parts) {
  const Node first = graph.nodes[parts.front().conv];
  const DType type = graph.value(first.inputs[1]).type;
  Shape shape = *graph.value(first.outputs[0]).shape;
  shape[1] = Size(0);
  std::vector<int64_t> channels;
  std::vector<ValueId> results;
  std::vector<const TensorData*> filters;
  for (const Part& part : parts) {
    channels.push_back(part.channels);
    results.push_back(part.tail.result);
    filters.push_back(constant_of(graph, graph.nodes[part.conv].inputs[1]));
    shape[1] = shape[1] + Size(part.channels);
  }
  std::optional<TensorData> bias = join_biases(graph, parts, type);
  std::vector<ValueId> inputs = {first.inputs[0],
                                 graph.add_constant(first.name + "/weights", join_constants(filters, 0))};
  if (bias) inputs.push_back(graph.add_constant(first.name + "/bias", std::move(*bias)));
  const ValueId conv = append_node(graph, first.name + "/merged", "Conv", inputs, type, shape, first.attributes);
  graph.nodes.back().name = joint_name(graph, parts);
  const ValueId joint = append_tail(graph, parts.front().tail, conv, shape);
  split_joint(graph, first.name, joint, 1, channels, results);
}

}  // namespace

bool merge_parallel_convolutions(Graph& graph, const PassContext&) {
  const Matcher matcher(graph);
  std::map<ValueId, std::vector<std::vector<Part>>> by_input;
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    auto part = part_of(graph, matcher, i);
    if (!part) continue;
    auto& groups = by_input[graph.nodes[i].inputs[0]];
    const auto fits = [&](const std::vector<Part>& group) {
      return same_window(graph, graph.nodes[group.front().conv], graph.nodes[i]) &&
             same_tail(graph, group.front().tail, part->tail);
    };
    const auto group = std::find_if(groups.begin(), groups.end(), fits);
    if (group == groups.end()) {
      groups.push_back({std::move(*part)});
    } else {
      group->push_back(std::move(*part));
    }
  }
  bool changed = false;
  for (auto& [x, groups] : by_input) {
    for (auto& parts : groups) {
      if (parts.size() < 2) continue;
      std::stable_partition(parts.begin(), parts.end(), [](const Part& part) { return part.channels % kVector == 0; });
      merge(graph, parts);
      changed = true;
    }
  }
  if (!changed) return false;
  graph.sort_nodes();
  sweep(graph);
  return true;
}

}  // namespace graft::passes
