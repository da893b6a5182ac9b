// SPDX-License-Identifier: Apache-2.0
// Every sample of every operator as generated kernels, against its definition in the interpreter: on the machine's own
// target, on AVX2 and on the portable one; with sizes known and with sizes open.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "fuse/fused_program.h"
#include "graph/evaluate_graph.h"
#include "graph/infer.h"
#include "kernel_source.h"
#include "ops/sample_case.h"
#include "plan/build_engine.h"
#include "runtime/session.h"

namespace graft {
namespace {

/// What an allocator of a run fills.
struct Results {
  std::vector<TensorData> tensors;
};

void* allocate_result(void* context, int output, DType type, std::span<const int64_t> shape, size_t) {
  auto& results = *static_cast<Results*>(context);
  results.tensors[output] = TensorData::zeros(type, {shape.begin(), shape.end()});
  return results.tensors[output].mutable_bytes().data();
}

Engine engine_for(const Graph& graph, const std::string& target) {
  BuildOptions options{.target = find_target(target, 2)};
  options.compile_kernels = kernel_code;
  return build_engine(fuse(graph), options).engine;
}

std::vector<TensorData> run_engine(Engine engine, const std::map<std::string, TensorData>& inputs) {
  Session session(load_code(std::make_shared<const Engine>(std::move(engine))), 2);
  std::vector<BufferView> views;
  for (const int tensor : session.engine().inputs) {
    const TensorData& data = inputs.at(session.engine().tensors[tensor].name);
    views.push_back({const_cast<std::byte*>(data.bytes().data()), data.type(), data.shape(), {}});
  }
  Results results{std::vector<TensorData>(session.engine().outputs.size())};
  std::vector<BufferView> outputs(results.tensors.size());
  const Status status = session.run(views, outputs, allocate_result, &results);
  EXPECT_TRUE(status.ok()) << status.message();
  return status.ok() ? results.tensors : std::vector<TensorData>{};
}

class GeneratedSample : public testing::TestWithParam<std::tuple<std::string, SampleCase>> {
 protected:
  /// Compiles and runs the sample, and compares it with the interpreter.
  void check(Openness openness) {
    const auto& [target, c] = GetParam();
    const std::string missing = why_no_generator(find_target(target, 1));
    if (!missing.empty()) GTEST_SKIP() << missing;
    Graph graph = make_graph(c, openness);
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

INSTANTIATE_TEST_SUITE_P(all, GeneratedSample,
                         testing::Combine(testing::Values("native", "x86-64-v3", "portable"),
                                          testing::ValuesIn(all_sample_cases())),
                         case_name);

}  // namespace
}  // namespace graft
