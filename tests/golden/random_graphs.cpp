// SPDX-License-Identifier: Apache-2.0
// Random graphs of common operators compute the same before and after the pipeline. A failure prints the seed;
// GRAFT_SEED=N runs that one first.
#include <map>

#include <gtest/gtest.h>

#include "base/environment.h"
#include "graph/evaluate_graph.h"
#include "passes/pass.h"
#include "support/random_graph.h"

namespace graft {
namespace {

TEST(RandomGraphs, compute_the_same_after_the_pipeline) {
  std::map<std::string_view, int> changes;
  const uint64_t first = environment().seed;
  for (uint64_t seed = first; seed < first + 150; ++seed) {
    SCOPED_TRACE("GRAFT_SEED=" + std::to_string(seed));
    const Graph before = random_graph(seed, 10);
    Graph after = before;
    const Environment plain;
    std::vector<PassStatistics> statistics;
    PassContext context;
    context.environment = &plain;
    context.statistics = &statistics;
    run_passes(after, context);
    for (const PassStatistics& entry : statistics) changes[entry.pass] += entry.changed;
    const NamedTensors inputs = random_inputs(before, seed);
    const auto expected = evaluate(before, inputs), actual = evaluate(after, inputs);
    ASSERT_EQ(expected.size(), actual.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto difference = first_difference(expected[i], actual[i], 1e-4);
      ASSERT_FALSE(difference) << *difference << "\nbefore\n" << print(before) << "\nafter\n" << print(after);
    }
  }
  // The graphs would prove nothing about a pass that finds nothing in them.
  for (const char* pass :
       {"fold_constants", "remove_identities", "merge_equal_nodes", "recognise_gelu", "recognise_layer_normalization",
        "recognise_attention", "simplify_algebra", "sink_transposes", "merge_parallel_matmuls"}) {
    EXPECT_GT(changes[pass], 0) << pass;
  }
}

}  // namespace
}  // namespace graft
