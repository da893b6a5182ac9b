// SPDX-License-Identifier: Apache-2.0
// RandomUniform(...) without a seed -> RandomUniform(..., graft::Seed()), which each run draws anew; likewise for all
// operators that take a random state. Dropout(x, ratio, training) with a seed -> the same with words of MT19937, which
// a Loop makes, 624 in each round: the stream of numpy, by which ONNX judges it.
#include <algorithm>
#include <vector>

#include "graph/insert_graph.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

constexpr size_t kMersenneWords = 624;
constexpr size_t kDropoutWords = 4;  ///< the input of Dropout that takes them

/// What numpy.random.seed makes of a number.
TensorData mersenne_state(uint64_t seed) {
  TensorData state = TensorData::zeros(DType::kUint32, {static_cast<int64_t>(kMersenneWords)});
  const auto words = state.mutable_as<uint32_t>();
  words[0] = static_cast<uint32_t>(seed);
  for (uint32_t k = 1; k < kMersenneWords; ++k) words[k] = 1812433253u * (words[k - 1] ^ (words[k - 1] >> 30)) + k;
  return state;
}

/// Two words for each element.
constexpr std::string_view kMersenneRounds = R"(graph "MersenneTwister" {
  opset "" 28
  opset "graft" 1
  input %x: ?
  input %state: u32[624]
  constant %rest: i64[] = {311}
  constant %each: i64[] = {312}
  %count: i64[] = Size "count" (%x)
  %more: i64[] = Add "more" (%count, %rest)
  %rounds: i64[] = Div "rounds" (%more, %each)
  _, %words: ? = Loop "words" (%rounds, _, %state) {body = graph "round" {
    input %round: i64[]
    input %condition: bool[]
    input %old: u32[624]
    %next: u32[624] = graft::MersenneRound "next" (%old)
    output %condition
    output %next
    output %next
  }, captures = [0]}
  output %words
}
)";

/// Whether a node of Dropout may drop elements.
bool drops(const Graph& graph, const Node& node) {
  return scalar_of(graph, input(node, 2)) != 0.0 && scalar_of(graph, input(node, 1)) != 0.0;
}

void append_input(Node& node, size_t place, ValueId id) {
  node.inputs.resize(std::max(node.inputs.size(), place + 1), kNoValue);
  node.inputs[place] = id;
}

bool add_words(Graph& graph, int index) {
  const Node node = graph.nodes[static_cast<size_t>(index)];
  if (input(node, kDropoutWords) != kNoValue || !drops(graph, node)) return false;
  const auto seed = static_cast<uint64_t>(integer(node, "seed", 0));
  const ValueId state = graph.add_constant(node.name + "/seed", mersenne_state(seed));
  const Graph rounds = parse_graph(kMersenneRounds);
  const std::vector<ValueId> copies = insert_graph(graph, rounds, {node.inputs[0], state}, node.name);
  append_input(graph.nodes[static_cast<size_t>(index)], kDropoutWords,
               copies[static_cast<size_t>(rounds.outputs[0])]);
  return true;
}

bool add_state(Graph& graph, int index, size_t place) {
  const std::string name = graph.nodes[static_cast<size_t>(index)].name + "/random_state";
  Node seed;
  seed.name = name;
  seed.domain = "graft";
  seed.op = "Seed";
  seed.outputs = {graph.add_value(name, DType::kInt64, Shape{})};
  append_input(graph.nodes[static_cast<size_t>(index)], place, seed.outputs[0]);
  graph.add_node(std::move(seed));
  graph.opsets.try_emplace("graft", 1);
  return true;
}

bool seed_nodes(Graph& graph) {
  bool changed = false;
  const int count = static_cast<int>(graph.nodes.size());
  for (int i = 0; i < count; ++i) {
    const Node& node = graph.nodes[static_cast<size_t>(i)];
    const std::optional<size_t> place = random_state_input(node);
    if (!place) continue;
    if (is_random(node)) {
      if (!is_op(node, {"Dropout"}) || drops(graph, node)) changed |= add_state(graph, i, *place);
    } else if (is_op(node, {"Dropout"}) && node.attributes.contains("seed")) {
      changed |= add_words(graph, i);
    }
  }
  if (changed) graph.sort_nodes();
  return changed;
}

}  // namespace

bool seed_random(Graph& graph, const PassContext&) { return rewrite_with_bodies(graph, seed_nodes); }

}  // namespace graft::passes
