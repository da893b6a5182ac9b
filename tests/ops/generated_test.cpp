// SPDX-License-Identifier: Apache-2.0
// Every sample of every operator as generated kernels, against its definition in the interpreter: on the machine's own
// target and on lesser ones; with sizes known and with sizes open.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/cuda/cuda_device.h"
#include "graph/evaluate_graph.h"
#include "graph/infer.h"
#include "graph/random_state.h"
#include "modules/kernel_source.h"
#include "support/run_generated.h"
#include "support/sample_case.h"
#include "target/target.h"

namespace graft {
namespace {

class GeneratedSample : public testing::TestWithParam<std::tuple<std::string, SampleCase>> {
 protected:
  /// Compiles and runs the sample, and compares it with the interpreter.
  void check(Openness openness) {
    const auto& [target, c] = GetParam();
    const std::string missing = why_no_generator(find_target(target, 1));
    if (!missing.empty()) GTEST_SKIP() << missing;
    Graph graph = make_graph(c, openness);
    if (is_drawn(graph.nodes[0])) GTEST_SKIP() << "each run draws it anew";
    infer_types(graph);
    std::map<std::string, TensorData> inputs;
    const Node node = graph.nodes[0];
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      if (!c.inputs[i] || graph.value(node.inputs[i]).constant) continue;
      inputs[graph.value(node.inputs[i]).name] = c.inputs[i];
    }
    const std::map<std::string, TensorData, std::less<>> named(inputs.begin(), inputs.end());
    const std::vector<TensorData> expected = evaluate(graph, named);
    Engine engine = engine_for(graph, target);
    for (const EngineStep& step : engine.steps) {
      const bool generated = step.kind == StepKind::kKernel || step.kind == StepKind::kNone;
      EXPECT_TRUE(generated) << (step.candidates.empty() ? "" : step.candidates.back().reason);
    }
    const std::vector<TensorData> actual = run_engine(std::move(engine), inputs);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t k = 0; k < actual.size(); ++k) {
      const auto difference = first_difference(expected[k], actual[k], c.sample.tolerance);
      EXPECT_FALSE(difference) << "output " << k << ": " << *difference;
    }
  }
};

TEST_P(GeneratedSample, agrees_with_the_interpreter_when_sizes_are_known) { check(Openness::kContents); }

TEST_P(GeneratedSample, agrees_with_the_interpreter_when_sizes_are_open) {
  try {
    check(Openness::kSizes);
  } catch (const Error& error) {
    // Some operators need some size when compiling; they must say so.
    if (error.kind() != ErrorKind::kUnsupported) throw;
    GTEST_SKIP() << error.what();
  }
}

std::string case_name(const testing::TestParamInfo<std::tuple<std::string, SampleCase>>& info) {
  std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param).name();
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

/// The targets to run on: those of this CPU, or its GPU (`./dev test --device cuda`).
std::vector<std::string> targets() {
  const char* device = std::getenv("GRAFT_TEST_DEVICE");
  if (device && std::string_view(device) == "cuda") return {cuda_architecture(0)};
  return cpu_targets();
}

INSTANTIATE_TEST_SUITE_P(all, GeneratedSample,
                         testing::Combine(testing::ValuesIn(targets()), testing::ValuesIn(all_sample_cases())),
                         case_name);

}  // namespace
}  // namespace graft
