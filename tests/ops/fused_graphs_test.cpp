// SPDX-License-Identifier: Apache-2.0
// Graphs of several nodes as generated kernels against the interpreter: the graphs whose fusion the golden files show,
// and random ones.
#include <algorithm>

#include <gtest/gtest.h>

#include "base/environment.h"
#include "graph/evaluate_graph.h"
#include "graph/infer.h"
#include "modules/kernel_source.h"
#include "support/golden_file.h"
#include "support/random_block.h"
#include "support/random_contraction.h"
#include "support/random_forms.h"
#include "support/random_graph.h"
#include "support/run_generated.h"
#include "target/target.h"

namespace graft {
namespace {

/// Compiles and runs the graph, and compares each output with the interpreter's.
void check_graph(Graph graph, const std::string& target, uint64_t seed, double tolerance) {
  infer_types(graph);
  const TensorsByName inputs = random_inputs(graph, seed);
  const std::vector<TensorData> expected = evaluate(graph, inputs);
  Engine engine = engine_for(graph, target);
  for (const EngineStep& step : engine.steps) {
    EXPECT_NE(step.kind, StepKind::kInterpreter) << step.name;
  }
  const std::vector<TensorData> actual = run_engine(std::move(engine), {inputs.begin(), inputs.end()});
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(actual[i].shape(), expected[i].shape());
    const auto difference = first_difference(expected[i], actual[i], tolerance);
    EXPECT_FALSE(difference) << graph.value(graph.outputs[i]).name << ": " << *difference << "\n" << print(graph);
  }
}

bool generator_is_missing() { return !why_no_generator(find_target("native", 1)).empty(); }

class FusedGraph : public testing::TestWithParam<std::string> {};

TEST_P(FusedGraph, of_the_golden_files_agrees_with_the_interpreter) {
  if (generator_is_missing()) GTEST_SKIP();
  for (const golden::File& file : golden::read_folder("fuse")) {
    for (const golden::Case& c : file.cases) {
      SCOPED_TRACE(c.name);
      check_graph(parse_graph(c.input), GetParam(), 5, 1e-5);
    }
  }
}

TEST_P(FusedGraph, of_random_operators_agrees_with_the_interpreter) {
  if (generator_is_missing()) GTEST_SKIP();
  const uint64_t first = environment().seed;
  for (uint64_t seed = first; seed < first + 12; ++seed) {
    SCOPED_TRACE("GRAFT_SEED=" + std::to_string(seed));
    check_graph(random_graph(seed, 10), GetParam(), seed, 1e-4);
  }
}

TEST_P(FusedGraph, of_random_blocks_agrees_with_the_interpreter) {
  if (generator_is_missing()) GTEST_SKIP();
  const uint64_t first = environment().seed;
  for (uint64_t seed = first; seed < first + 12; ++seed) {
    SCOPED_TRACE("GRAFT_SEED=" + std::to_string(seed));
    check_graph(random_image_block(seed), GetParam(), seed, 1e-4);
    check_graph(random_attention(seed), GetParam(), seed, 1e-5);
  }
}

TEST_P(FusedGraph, of_random_contractions_and_reductions_agrees_with_the_interpreter) {
  if (generator_is_missing()) GTEST_SKIP();
  const uint64_t first = environment().seed;
  for (uint64_t seed = first; seed < first + 40; ++seed) {
    SCOPED_TRACE("GRAFT_SEED=" + std::to_string(seed));
    for (Graph graph : {random_contraction(seed), random_reduction(seed)}) {
      infer_types(graph);
      check_graph(graph, GetParam(), seed, std::max(1e-4, usual_tolerance(graph.value(graph.outputs[0]).type)));
    }
  }
}

TEST_P(FusedGraph, of_random_forms_agrees_with_the_interpreter) {
  if (generator_is_missing()) GTEST_SKIP();
  const uint64_t first = environment().seed;
  for (uint64_t seed = first; seed < first + 8; ++seed) {
    SCOPED_TRACE("GRAFT_SEED=" + std::to_string(seed));
    for (Graph graph : {random_einsum(seed), random_window(seed), random_masked_attention(seed)}) {
      infer_types(graph);
      check_graph(graph, GetParam(), seed, std::max(1e-4, usual_tolerance(graph.value(graph.outputs[0]).type)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(targets, FusedGraph, testing::ValuesIn(cpu_targets()),
                         [](const testing::TestParamInfo<std::string>& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace graft
