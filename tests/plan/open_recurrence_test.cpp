// SPDX-License-Identifier: Apache-2.0
// Recurrent layers over a length that only the run knows, as engines, against their definitions over that length.
#include <algorithm>

#include <gtest/gtest.h>

#include "driver/compile.h"
#include "driver/load.h"
#include "graph/infer.h"
#include "support/control_flow_case.h"
#include "support/run_on_engine.h"
#include "support/sample_case.h"

namespace graft {
namespace {

/// The inputs of a layer that have an axis of positions, and which axis it is.
std::vector<std::pair<size_t, size_t>> sequences_of(const SampleCase& c) {
  if (c.op->name == "LinearAttention") return {{0, 1}, {1, 1}, {2, 1}, {4, 1}, {5, 1}};
  const auto layout = c.sample.attributes.find("layout");
  const bool batch_first = layout != c.sample.attributes.end() && std::get<int64_t>(layout->second) != 0;
  return {{0, batch_first ? 1 : 0}};
}

/// The sample with its weights as constants, its length a symbol, and its other sizes known or symbols too.
Graph open(const SampleCase& c, Openness openness) {
  Graph graph = make_graph(c, openness);
  for (const auto& [input, axis] : sequences_of(c)) {
    if (input >= c.inputs.size() || !c.inputs[input]) continue;
    (*graph.value(graph.nodes[0].inputs[input]).shape)[axis] = Size::symbol("length");
  }
  infer_types(graph);
  return graph;
}

TensorsByName inputs_of(const Graph& graph, const SampleCase& c) {
  TensorsByName inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (c.inputs[i]) inputs[graph.value(graph.nodes[0].inputs[i]).name] = c.inputs[i];
  }
  return inputs;
}

void expect_agreement(const SampleCase& c, Openness openness) {
  SCOPED_TRACE(c.name());
  const Graph graph = open(c, openness);
  for (const bool interpret : {true, false}) {
    CompileOptions options;
    options.interpret = interpret;
    options.tuning = Tuning::kOff;
    options.threads = 2;
    const Compiled compiled = compile_from(graph, Stage::kImport, options);
    const auto code = load_code(std::make_shared<const Engine>(compiled.engine));
    expect_results_of(graph, code, inputs_of(graph, c), c.sample.tolerance);
  }
}

std::vector<SampleCase> layers() {
  std::vector<SampleCase> all = all_sample_cases();
  std::erase_if(all, [](const SampleCase& c) {
    return !c.op->domain.empty() ||
           (c.op->name != "LSTM" && c.op->name != "GRU" && c.op->name != "RNN" && c.op->name != "LinearAttention");
  });
  return all;
}

TEST(OpenRecurrence, every_sample_of_a_recurrent_layer_runs_over_an_open_length) {
  for (const SampleCase& c : layers()) {
    expect_agreement(c, Openness::kContents);
    // The size of a decay says which rule of LinearAttention it is of, and has to be known.
    if (c.op->name != "LinearAttention") expect_agreement(c, Openness::kSizes);
  }
}

/// The sample of that name and operator, to be changed.
SampleCase sample(std::string_view name) {
  for (const SampleCase& c : layers()) {
    if (c.name() == name) return c;
  }
  ADD_FAILURE() << "no sample " << name;
  return {};
}

TEST(OpenRecurrence, each_direction_has_its_own_functions_and_their_parameters) {
  SampleCase c = sample("LSTM.both_directions");
  const std::vector<std::string> names = {"LeakyRelu", "Tanh", "ScaledTanh", "HardSigmoid", "Affine", "Tanh"};
  c.sample.attributes["activations"] = names;
  c.sample.attributes["activation_alpha"] = std::vector<double>{0.1, 0.9, 0.3, 0.7};
  c.sample.attributes["activation_beta"] = std::vector<double>{0.8, 0.4, 0.2};
  c.sample.attributes["clip"] = 0.75;
  expect_agreement(c, Openness::kContents);
}

TEST(OpenRecurrence, padding_behind_short_sequences_keeps_their_states_in_both_directions) {
  for (const char* name : {"LSTM.sequences_of_several_lengths", "GRU.sequences_of_several_lengths"}) {
    SampleCase c = sample(name);
    c.sample.attributes["direction"] = std::string("reverse");
    expect_agreement(c, Openness::kContents);
  }
}

TEST(OpenRecurrence, one_output_alone_is_given) {
  for (const int wanted : {0, 1, 2}) {
    const SampleCase c = sample("LSTM.both_directions");
    Graph graph = open(c, Openness::kContents);
    std::vector<ValueId>& outputs = graph.nodes[0].outputs;
    graph.outputs = {outputs[static_cast<size_t>(wanted)]};
    for (int k = 0; k < 3; ++k) {
      if (k != wanted) outputs[static_cast<size_t>(k)] = kNoValue;
    }
    CompileOptions options;
    options.interpret = true;
    const Compiled compiled = compile_from(graph, Stage::kImport, options);
    expect_results_of(graph, load_code(std::make_shared<const Engine>(compiled.engine)), inputs_of(graph, c),
                      c.sample.tolerance);
  }
}

TEST(OpenRecurrence, a_sequence_of_no_positions_gives_the_states_it_starts_from) {
  SampleCase c = sample("GRU.sequences_of_several_lengths");
  const Graph graph = open(c, Openness::kContents);
  TensorsByName inputs = inputs_of(graph, c);
  const std::vector<int64_t>& shape = c.inputs[0].shape();
  inputs[graph.value(graph.nodes[0].inputs[0]).name] = TensorData::zeros(DType::kFloat32, {0, shape[1], shape[2]});
  CompileOptions options;
  options.interpret = true;
  const Compiled compiled = compile_from(graph, Stage::kImport, options);
  Session session(load_code(std::make_shared<const Engine>(compiled.engine)));
  const graft_test::Results results = graft_test::run(session, graph, inputs);
  ASSERT_TRUE(results.status.ok()) << results.status.message();
  EXPECT_EQ(results.views[0].shape[0], 0);
  const TensorData& start = c.inputs[5];
  const std::span<const std::byte> bytes(results.memory[1].data(), static_cast<size_t>(start.byte_count()));
  EXPECT_TRUE(std::ranges::equal(bytes, start.bytes()));
}

}  // namespace
}  // namespace graft
