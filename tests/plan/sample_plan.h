// SPDX-License-Identifier: Apache-2.0
// A small plan that uses every field: two layers whose weights are large enough to be stored, one of them packed.
#pragma once

#include <string>

#include "driver/compile.h"
#include "driver/load.h"
#include "modules/kernel_source.h"

namespace graft {

/// x[n, 24] -> relu(x * w1 + b1) * w2, with the names and ranges that a plan keeps.
inline Graph sample_graph(int64_t columns = 40) {
  const auto weights = [](std::vector<int64_t> shape, double scale) {
    TensorData data = TensorData::zeros(DType::kFloat32, std::move(shape));
    for (int64_t i = 0; i < data.element_count(); ++i) {
      data.write_double(i, scale * static_cast<double>((i * 37) % 101 - 50));
    }
    return data;
  };
  const std::map<std::string, TensorData, std::less<>> named = {
      {"w1", weights({24, columns}, 0.01)}, {"b1", weights({columns}, 0.02)}, {"w2", weights({columns, 8}, 0.01)}};
  const std::string size = std::to_string(columns);
  const std::string text = R"(graph "sample" {
  opset "" 28
  metadata "author" "somebody"
  range n 1 8 256
  input %x: f32[n, 24]
  constant %w1: f32[24, )" +
                           size + R"(] = weights
  constant %b1: f32[)" + size +
                           R"(] = weights
  constant %w2: f32[)" + size +
                           R"(, 8] = weights
  %a: f32[n, )" + size + R"(] = MatMul "first" (%x, %w1)
  %b: f32[n, )" + size + R"(] = Add "bias" (%a, %b1)
  %c: f32[n, )" + size + R"(] = Relu "relu" (%b)
  %y: f32[n, 8] = MatMul "second" (%c, %w2)
  output %y
}
)";
  return parse_graph(text, &named);
}

inline Compiled sample_compiled(int64_t columns = 40, std::vector<std::string> targets = {}) {
  CompileOptions options;
  options.threads = 2;
  options.tuning = Tuning::kOff;
  options.targets = std::move(targets);
  return compile_from(sample_graph(columns), Stage::kImport, options);
}

/// Why kernels are not generated for the sample, and its weights not packed for them; "" when they are.
inline std::string why_no_sample_kernels() { return why_no_generator(find_target("native", 2)); }

inline PlanFile sample_plan(int64_t columns = 40) { return to_file(sample_compiled(columns).plan); }

}  // namespace graft
