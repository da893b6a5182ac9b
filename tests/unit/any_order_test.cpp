// SPDX-License-Identifier: Apache-2.0
// Results of which nobody cares how their axes lie are not turned for a caller who only counts their elements.
#include <gtest/gtest.h>

#include "driver/compile.h"
#include "driver/load.h"
#include "fuse/fused_program.h"
#include "graph/infer.h"
#include "quantize/histogram.h"
#include "runtime/session.h"

namespace graft {
namespace {

/// Two convolutions; the results of both are asked for.
Graph two_convolutions() {
  Graph graph = parse_graph(R"(graph "main" {
  opset "" 22
  input %x: f32[1, 16, 9, 7]
  input %v: f32[32, 16, 3, 3]
  input %w: f32[16, 32, 1, 1]
  %a: ? = Conv "first" (%x, %v) {pads = [1, 1, 1, 1]}
  %b: ? = Relu "relu" (%a)
  %y: ? = Conv "second" (%b, %w)
  output %y
  output %b
})");
  infer_types(graph);
  return graph;
}

TEST(AnyOrder, results_lie_as_kernels_store_them_where_they_may) {
  const FusedProgram program = fuse(two_convolutions(), FusionChoices{.any_order = {false, true}});
  const auto shape = [&](int n) { return to_string(program.tensors[program.outputs[n]].shape); };
  EXPECT_EQ(shape(0), "[1, 16, 9, 7]");
  EXPECT_EQ(shape(1), "[1, 9, 7, 32]");
  const FusedProgram plain = fuse(two_convolutions());
  EXPECT_EQ(to_string(plain.tensors[plain.outputs[1]].shape), "[1, 32, 9, 7]");
}

TEST(AnyOrder, elements_are_the_same) {
  std::vector<quantize::Histogram> histograms;
  std::vector<std::vector<int64_t>> shapes;
  for (const bool any_order : {false, true}) {
    CompileOptions options;
    options.tuning = Tuning::kOff;
    options.any_order = {false, any_order};
    Compiled compiled = compile_from(two_convolutions(), Stage::kImport, options);
    Session session(load(std::move(compiled.engine), "cpu"), 1);
    std::vector<TensorData> tensors;
    std::vector<BufferView> inputs, outputs;
    for (const std::vector<int64_t>& shape :
         std::vector<std::vector<int64_t>>{{1, 16, 9, 7}, {32, 16, 3, 3}, {16, 32, 1, 1}}) {
      tensors.push_back(TensorData::zeros(DType::kFloat32, shape));
      for (int64_t i = 0; i < tensors.back().element_count(); ++i) {
        tensors.back().write_double(i, static_cast<double>(i * 7 % 23) - 11);
      }
    }
    for (TensorData& tensor : tensors) {
      inputs.push_back({tensor.mutable_bytes().data(), tensor.type(), tensor.shape(), {}});
    }
    std::vector<TensorData> results;
    for (const int output : session.engine().outputs) {
      results.push_back(TensorData::zeros(DType::kFloat32, concrete(session.engine().tensors[output].shape)));
      outputs.push_back({results.back().mutable_bytes().data(), DType::kFloat32, results.back().shape(), {}});
    }
    const Status status = session.run(inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    histograms.emplace_back().add(results[1].as<float>());
    shapes.push_back(results[1].shape());
  }
  EXPECT_NE(shapes[0], shapes[1]);
  EXPECT_EQ(histograms[0].bins(), histograms[1].bins());
  EXPECT_EQ(histograms[0].high(), histograms[1].high());
  EXPECT_GT(histograms[0].high(), 0);
}

}  // namespace
}  // namespace graft
