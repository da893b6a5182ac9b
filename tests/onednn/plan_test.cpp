// SPDX-License-Identifier: Apache-2.0
// Plans whose records name the library, for sizes that it takes and sizes that it does not.
#include <gtest/gtest.h>

#include "fuse/fused_program.h"
#include "graph/infer.h"
#include "modules/kernel_source.h"
#include "modules/library_source.h"
#include "plan/build_engine.h"
#include "support/library_case.h"
#include "support/library_graphs.h"

namespace graft {
namespace {

void* allocate_result(void* context, int, DType type, std::span<const int64_t> shape, size_t) {
  auto& result = *static_cast<TensorData*>(context);
  result = TensorData::zeros(type, {shape.begin(), shape.end()});
  return result.mutable_bytes().data();
}

/// Three convolutions of constant weights over images of any number.
FusedProgram network() {
  const ConvolutionGraph text{"batch, 16, 14, 14", "64, 16, 3, 3", "pads = [1, 1, 1, 1]", 16, 64};
  Graph graph = parse_graph(text.text());
  infer_types(graph);
  FusedProgram program = fuse(graph);
  for (size_t i = 1; i < program.inputs.size(); ++i) {
    FusedTensor& weights = program.tensors[program.inputs[i]];
    std::vector<int64_t> shape;
    for (const Size& size : weights.shape) shape.push_back(size.constant());
    std::vector<float> values(static_cast<size_t>(element_count(weights.shape).constant()));
    for (size_t v = 0; v < values.size(); ++v) values[v] = static_cast<float>(v % 23) / 23 - 0.4f;
    weights.constant = TensorData::from_values(DType::kFloat32, shape, values);
  }
  program.inputs.resize(1);
  return program;
}

TensorData run(Engine engine, int64_t batch, Status& status) {
  Session session(load_code(std::make_shared<const Engine>(std::move(engine)), library_source()), 2);
  std::vector<float> values(static_cast<size_t>(batch) * 16 * 14 * 14);
  for (size_t v = 0; v < values.size(); ++v) values[v] = static_cast<float>(v % 37) / 37 - 0.5f;
  const std::vector<BufferView> inputs = {{values.data(), DType::kFloat32, {batch, 16, 14, 14}, {}}};
  TensorData result;
  std::vector<BufferView> outputs(1);
  status = session.run(inputs, outputs, allocate_result, &result);
  return result;
}

TEST(LibraryPlan, sizes_that_the_library_refuses_run_as_kernels) {
  BuildOptions options{.target = host_cpu(2)};
  if (const std::string missing = why_no_generator(options.target); !missing.empty()) GTEST_SKIP() << missing;
  options.compile_kernels = kernel_code;
  options.libraries = {library_source(), why_no_library};
  const BuiltEngine generated = build_engine(network(), options);
  Status status;
  const TensorData expected = run(generated.engine, 3, status);
  ASSERT_TRUE(status.ok()) << status.message();
  Record record = generated.record;
  options.record = &record;
  // oneDNN takes one of these widths for each convolution, and refuses the others.
  for (const int panel : {16, 32, 48, 64}) {
    for (auto& [key, choice] : record.regions) {
      if (choice.step == "conv") choice.way = fmt::format("onednn cut=rows pieces=2 panel={}", panel);
    }
    const BuiltEngine built = build_engine(network(), options);
    for (const EngineStep& step : built.engine.steps) {
      EXPECT_EQ(step.kind, step.name == "conv" ? StepKind::kLibrary : StepKind::kKernel) << step.name;
    }
    const TensorData actual = run(built.engine, 3, status);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_LT(LibraryCase::difference(expected, actual), 1e-5) << "panels of " << panel;
  }
}

}  // namespace
}  // namespace graft
