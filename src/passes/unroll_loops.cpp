// SPDX-License-Identifier: Apache-2.0
// Loop(3, true, state) -> the nodes of its body three times, named `LOOP/ROUND/NODE`, where the rounds are few and all
// of them run: what a round knows of its number is folded, and rounds share kernels.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "graph/bodies.h"
#include "graph/infer.h"
#include "graph/insert_graph.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

constexpr int64_t kMostRounds = 16;
constexpr int64_t kMostNodes = 128;  // of all rounds, the loops among them unrolled as well
/// Loops whose limits other loops make known may follow from each other: a graph grows to so many times its nodes and
/// no further, however loops are nested.
constexpr int64_t kMostGrowth = 16;
constexpr int64_t kSmallGraph = 256;

/// Nodes of a graph and of those in it, a loop's as often as a constant limit says; `most` where they are more.
int64_t count_deeply(const Graph& graph, int64_t most) {
  int64_t count = std::min<int64_t>(most, std::ssize(graph.nodes));
  for (const Node& node : graph.nodes) {
    const double limit = node.op == "Loop" ? scalar_of(graph, input(node, 0)).value_or(1) : 1;
    const double rounds = std::clamp<double>(limit, 1, static_cast<double>(most));
    for (const NodeBody& body : bodies_of(node)) {
      if (count >= most) return most;
      const int64_t inside = count_deeply(*body.graph, most);
      count = std::min(most, count + std::min(most, static_cast<int64_t>(rounds) * inside));
    }
  }
  return count;
}

/// How many rounds run, where that is known and few.
std::optional<int64_t> few_rounds(const Graph& graph, const Node& node, const Graph& body) {
  const auto limit = scalar_of(graph, input(node, 0));
  if (!limit || *limit < 1 || *limit > static_cast<double>(kMostRounds) || !keeps_condition(body)) return std::nullopt;
  const ValueId condition = input(node, 1);
  if (condition != kNoValue && scalar_of(graph, condition).value_or(0) == 0) return std::nullopt;
  const auto rounds = static_cast<int64_t>(*limit);
  return rounds * count_deeply(body, kMostNodes + 1) <= kMostNodes ? std::optional(rounds) : std::nullopt;
}

bool unroll(Graph& graph, int index) {
  const Node node = graph.nodes[index];
  if (!is_op(node, {"Loop"})) return false;
  const std::vector<NodeBody> bodies = bodies_of(node);
  if (bodies.size() != 1) return false;
  const Graph& body = *bodies[0].graph;
  const auto rounds = few_rounds(graph, node, body);
  const std::vector<ValueId> captured = bodies[0].captured_by(node);
  const size_t own = own_input_count(node);
  const bool fits = own >= 2 && body.inputs.size() == own + captured.size() && body.outputs.size() + 1 >= own &&
                    node.outputs.size() < body.outputs.size();
  if (!rounds || !fits || std::any_of(body.nodes.begin(), body.nodes.end(), is_random)) return false;
  const size_t carried = own - 2;
  std::vector<ValueId> states(node.inputs.begin() + 2, node.inputs.begin() + static_cast<std::ptrdiff_t>(own));
  std::vector<std::vector<ValueId>> collected(body.outputs.size() - 1 - carried);
  for (int64_t round = 0; round < *rounds; ++round) {
    const auto constant = [&](std::string_view what, DType type, int64_t value) {
      TensorData data = TensorData::zeros(type, {});
      data.write_integer(0, value);
      return graph.add_constant(fmt::format("{}/{}", node.name, what), std::move(data));
    };
    std::vector<ValueId> arguments = {constant("round", DType::kInt64, round), constant("condition", DType::kBool, 1)};
    arguments.insert(arguments.end(), states.begin(), states.end());
    arguments.insert(arguments.end(), captured.begin(), captured.end());
    const std::vector<ValueId> copies = insert_graph(graph, body, arguments, fmt::format("{}/{}", node.name, round));
    for (size_t k = 0; k < carried; ++k) states[k] = copies[static_cast<size_t>(body.outputs[1 + k])];
    for (size_t k = 0; k < collected.size(); ++k) {
      const ValueId element = copies[static_cast<size_t>(body.outputs[1 + carried + k])];
      collected[k].push_back(append_node(graph, fmt::format("{}/element", node.name), "Unsqueeze",
                                         {element, add_integers(graph, node.name + "/axis", {0})}, DType::kUndefined,
                                         std::nullopt));
    }
  }
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    if (k < carried) {
      give_result(graph, index, k, "Identity", {states[k]});
    } else {
      give_result(graph, index, k, "Concat", collected[k - carried], {{"axis", int64_t{0}}});
    }
  }
  return true;
}

}  // namespace

bool unroll_loops(Graph& graph, const PassContext& context) {
  constexpr int64_t kMost = int64_t{1} << 40;
  const int64_t most = std::max(kSmallGraph, count_deeply(graph, kMost)) * kMostGrowth;
  const auto unroll_one = [&](Graph& g, const Matcher&, int index) {
    return std::ssize(g.nodes) < most && unroll(g, index);
  };
  bool changed = false;
  while (rewrite_nodes(graph, unroll_one)) {
    if (context.cancelled && context.cancelled()) break;  // which the next pass reports
    changed = true;
    infer_types(graph);  // the limit of the next loop may be a size
  }
  return changed;
}

}  // namespace graft::passes
