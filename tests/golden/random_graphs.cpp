// SPDX-License-Identifier: Apache-2.0
// Random graphs of common operators compute the same before and after the pipeline. A failure prints the seed;
// GRAFT_SEED=N runs that one first.
#include <algorithm>
#include <cmath>
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
    const TensorsByName inputs = random_inputs(before, seed);
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

/// The largest error of any of the outputs, as a share of its range.
double share_of_range(const std::vector<TensorData>& expected, const std::vector<TensorData>& actual) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    double low = 0, high = 0, error = 0;
    for (int64_t k = 0; k < expected[i].element_count(); ++k) {
      const double x = expected[i].read_double(k);
      low = std::min(low, x), high = std::max(high, x);
      error = std::max(error, std::fabs(actual[i].read_double(k) - x));
    }
    if (high > low) worst = std::max(worst, error / (high - low));
  }
  return worst;
}

TEST(RandomGraphs, compute_nearly_the_same_in_a_low_type) {
  const uint64_t first = environment().seed;
  std::vector<double> shares;
  for (uint64_t seed = first; seed < first + 100; ++seed) {
    SCOPED_TRACE("GRAFT_SEED=" + std::to_string(seed));
    const Graph before = random_graph(seed, 10);
    Graph after = before;
    const Environment plain;
    PassContext context{.low_type = DType::kFloat16};
    context.environment = &plain;
    run_passes(after, context);
    const TensorsByName inputs = random_inputs(before, seed);
    const auto expected = evaluate(before, inputs), actual = evaluate(after, inputs);
    ASSERT_EQ(expected.size(), actual.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(describe(expected[i]), describe(actual[i]));
    shares.push_back(share_of_range(expected, actual));
  }
  std::sort(shares.begin(), shares.end());
  // Quotients by what is nearly zero may be off by any amount; most graphs have none.
  EXPECT_LT(shares[shares.size() / 2], 2e-3);
  EXPECT_LT(shares[shares.size() * 9 / 10], 2e-2);
}

}  // namespace
}  // namespace graft
