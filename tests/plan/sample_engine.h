// SPDX-License-Identifier: Apache-2.0
// A small engine that uses every field a plan stores. Its second step runs in the interpreter, its first in a kernel
// whose program is only a text here.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace graft {

inline constexpr const char* kAddRegion = R"(region add
tensor x: f32[n, 8]
tensor w: f32[8]
tensor y: f32[n, 8]
input x
input w
output y
compute y over [i0 < n, i1 < 8] {
  value add(x[i0, i1], w[i1])
}
)";

inline EngineTensor sample_tensor(const std::string& name, const Shape& shape, const Size& bytes, Storage storage,
                                  int index, int first = -1, int last = -1) {
  EngineTensor tensor;
  tensor.name = name;
  tensor.type = DType::kFloat32;
  tensor.shape = shape;
  tensor.bytes = bytes;
  tensor.storage = storage;
  tensor.index = index;
  tensor.first_step = first;
  tensor.last_step = last;
  return tensor;
}

inline EngineStep sample_step(const std::string& name, StepKind kind, std::vector<int> tensors) {
  const Size n = Size::symbol("n");
  EngineStep step;
  step.name = name;
  step.nodes = {name, name + "_bias"};
  step.operators = {"Add"};
  step.kind = kind;
  step.tensors = std::move(tensors);
  step.input_count = 2;
  step.region = kAddRegion;
  step.schedule = "nest chunk=4096 lanes=64";
  step.operations = n * Size(8);
  step.bytes = n * Size(64) + Size(32);
  step.checks = {{n - Size(1), true, "at least one row"}};
  step.candidates = {{"onednn", 0.25, "slower"}, {"generated contract", 0, "it is no contraction"}};
  return step;
}

/// x -> first (arena) -> second (output), both adding w; `runnable`: the first is interpreted too.
inline Engine sample_engine(bool runnable = false, int64_t weight_rows = 1) {
  const Size n = Size::symbol("n"), rows = n * Size(32);
  Engine engine;
  engine.name = "sample";
  engine.target = "cpu avx2\n";
  engine.threads = 2;
  engine.tensors = {sample_tensor("x", {n, 8}, rows, Storage::kInput, 0, 0, 0),
                    sample_tensor("w", {8}, 32, Storage::kConstant, 0, 0, 1),
                    sample_tensor("first", {n, 8}, rows, Storage::kArena, -1, 0, 1),
                    sample_tensor("first_flat", {n * Size(8)}, rows, Storage::kAlias, 2),
                    sample_tensor("second", {n, 8}, rows, Storage::kOutput, 0, 1, 2),
                    sample_tensor("names", {2}, 0, Storage::kConstant, 1),
                    sample_tensor("large", {weight_rows, 8}, weight_rows * 32, Storage::kConstant, 2)};
  engine.inputs = {0};
  engine.outputs = {4};
  std::vector<float> w(8), large(static_cast<size_t>(weight_rows) * 8);
  std::iota(w.begin(), w.end(), 1.5f);
  std::iota(large.begin(), large.end(), -3.f);
  engine.constants = {TensorData::from_values(DType::kFloat32, {8}, w), TensorData::from_strings({2}, {"a", "b c"}),
                      TensorData::from_values(DType::kFloat32, {weight_rows, 8}, large)};
  engine.steps = {sample_step("add1", runnable ? StepKind::kInterpreter : StepKind::kKernel, {0, 1, 2}),
                  sample_step("add2", StepKind::kInterpreter, {2, 1, 4})};
  if (!runnable) {
    engine.steps[0].kernel = 0;
    engine.steps[0].reference_inputs = {0, 1};
    engine.kernels = {{"k_1", 3, {"n"}, ceil_div(n, 4), n * Size(64) + Size(128), "program of k_1"},
                      {"k_2", 1, {}, 1, 0, "program of k_2"}};
  }
  engine.symbols["n"] = {1, 8, 256};
  engine.options = {{"precision", "fp32"}, {"tune", "off"}};
  return engine;
}

}  // namespace graft
