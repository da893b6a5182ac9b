// SPDX-License-Identifier: Apache-2.0
// What the compiler makes passes the checks of loading, and runs as before.
#include <gtest/gtest.h>

#include "base/random.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "plan/repair_checksums.h"
#include "runtime/session.h"

namespace graft {
namespace {

/// The outputs for a random f32 input of the shape.
std::vector<std::vector<float>> run(const Engine& engine, const std::vector<int64_t>& shape) {
  auto loaded = std::make_shared<LoadedEngine>();
  loaded->engine = std::make_shared<const Engine>(engine);
  Session session(loaded);
  std::vector<float> x(static_cast<size_t>(element_count(Shape(shape.begin(), shape.end())).constant()));
  Random random(9);
  for (float& value : x) value = static_cast<float>(random.uniform(-2, 2));
  const BufferView inputs[] = {{x.data(), DType::kFloat32, shape, {}}};
  std::vector<std::vector<float>> results(engine.outputs.size());
  std::vector<BufferView> outputs(results.size());
  const auto allocate = [](void* context, int output, DType, std::span<const int64_t>, size_t bytes) -> void* {
    auto& into = (*static_cast<std::vector<std::vector<float>>*>(context))[static_cast<size_t>(output)];
    into.resize(bytes / sizeof(float) + 1);
    return into.data();
  };
  const Status status = session.run(inputs, outputs, allocate, &results);
  EXPECT_TRUE(status.ok()) << status.message();
  return results;
}

void survives_the_plan_file(const char* text, const std::vector<int64_t>& shape) {
  CompileOptions options;
  options.interpret = true;
  options.threads = 1;
  const Compiled compiled = compile_from(parse_graph(text), Stage::kImport, options);
  const std::vector<std::byte> bytes = print_plan(to_file(compiled.plan));
  const AlignedCopy copy(bytes);
  const Plan again = from_file(parse_plan(copy.bytes(), copy.owner(), "compiled"), "compiled");
  EXPECT_EQ(print_plan(to_file(again)), bytes);
  EXPECT_EQ(run(build(again, host_cpu(1), options_of(again)), shape), run(compiled.engine, shape));
}

TEST(CompiledPlan, a_layer_with_weights) {
  survives_the_plan_file(R"(graph "layer" {
  opset "" 28
  range batch 1 8 64
  input %x: f32[batch, 4]
  constant %w: f32[4, 2] = {1, 2, 3, 4, 5, 6, 7, 8}
  constant %b: f32[2] = {0.5, -0.5}
  %y: f32[batch, 2] = MatMul "product" (%x, %w)
  %z: f32[batch, 2] = Add "bias" (%y, %b)
  %r: f32[batch, 2] = Relu "relu" (%z)
  output %r
}
)",
                         {3, 4});
}

TEST(CompiledPlan, an_operator_whose_definition_its_node_carries) {
  survives_the_plan_file(R"(graph "own" {
  opset "" 28
  opset "lab" 1
  range batch 1 8 64
  input %x: f32[batch, 4]
  %y: f32[batch, 4] = lab::Centre "centre" (%x) {definition = "operator lab::Centre {
    input x: f32[..., n]
    output y: f32[..., n]
    reduce s over [...] fold add [k < n] { lift x[..., k] }
    compute y over [..., i < n] { value x[..., i] - s[...] / n }
  }"}
  %r: f32[batch, 4] = Relu "relu" (%y)
  output %r
}
)",
                         {3, 4});
}

TEST(CompiledPlan, outputs_that_are_views_of_each_other) {
  survives_the_plan_file(R"(graph "views" {
  opset "" 28
  input %x: f32[batch, 4]
  constant %flat: i64[1] = {-1}
  %y: f32[batch, 4] = Exp "exp" (%x)
  %v: ? = Reshape "flatten" (%y, %flat)
  output %y
  output %v
  output %x
}
)",
                         {2, 4});
}

TEST(CompiledPlan, an_output_that_is_a_view_of_a_step) {
  survives_the_plan_file(R"(graph "view" {
  opset "" 28
  input %x: f32[batch, 4]
  constant %flat: i64[1] = {-1}
  %y: f32[batch, 4] = Exp "exp" (%x)
  %v: ? = Reshape "flatten" (%y, %flat)
  output %v
}
)",
                         {2, 4});
}

TEST(CompiledPlan, sizes_that_are_computed) {
  survives_the_plan_file(R"(graph "computed" {
  opset "" 28
  input %x: f32[n]
  %p: f32[n] = Relu "relu" (%x)
  %k: ? = NonZero "kept" (%p)
  %f: ? = Cast "as_floats" (%k) {to = 1}
  %s: ? = Sqrt "root" (%f)
  output %s
}
)",
                         {9});
}

TEST(CompiledPlan, regions_are_read_when_an_engine_is_loaded_and_not_by_runs) {
  CompileOptions options;
  options.interpret = true;
  const char* text = R"(graph "kept" {
  opset "" 28
  input %x: f32[n]
  %p: f32[n] = Relu "relu" (%x)
  %k: ? = NonZero "kept" (%p)
  %f: ? = Cast "as_floats" (%k) {to = 1}
  output %f
}
)";
  const auto engine = std::make_shared<Engine>(compile_from(parse_graph(text), Stage::kImport, options).engine);
  const auto loaded = load_code(engine);
  for (EngineStep& step : engine->steps) step.region = "what nobody can read";
  float x[] = {-1, 2, -3, 4};
  const BufferView inputs[] = {{x, DType::kFloat32, {4}, {}}};
  for (int session = 0; session < 2; ++session) {
    Session runs(loaded);
    for (int run = 0; run < 2; ++run) {
      float kept[4] = {};
      std::vector<BufferView> outputs = {{}};
      const auto allocate = [](void* into, int, DType, std::span<const int64_t>, size_t) { return into; };
      const Status status = runs.run(inputs, outputs, allocate, kept);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(outputs[0].shape, (std::vector<int64_t>{1, 2}));
      EXPECT_EQ(kept[0], 1);
      EXPECT_EQ(kept[1], 3);
    }
  }
}

}  // namespace
}  // namespace graft
