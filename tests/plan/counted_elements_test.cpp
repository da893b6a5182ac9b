// SPDX-License-Identifier: Apache-2.0
// Elements that a run counts: what kernels know of their number, also where it is all that they know.
#include <gtest/gtest.h>

#include <algorithm>

#include "driver/compile.h"
#include "driver/load.h"
#include "plan/sample_plan.h"

namespace graft {
namespace {

/// Which places are kept does not matter where all hold the same element, but how many are.
TEST(CountedElements, are_counted_where_no_place_matters) {
  const std::string text = R"(graph "repeated" {
  opset "" 28
  input %x: f32[n, 1]
  input %kept: bool[4]
  constant %shape: i64[2] = {3, 4}
  %wide: ? = Expand "repeat" (%x, %shape)
  %y: ? = Compress "keep" (%wide, %kept) {axis = 1}
  output %y
})";
  for (const bool interpret : {true, false}) {
    CompileOptions options;
    options.tuning = Tuning::kOff;
    options.interpret = interpret;
    Session session(load(compile_from(parse_graph(text), Stage::kImport, options).engine));
    float x[] = {1, 2, 3};
    for (const std::vector<uint8_t>& kept : {std::vector<uint8_t>{1, 0, 1, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}}) {
      const BufferView inputs[] = {{x, DType::kFloat32, {3, 1}, {}},
                                   {const_cast<uint8_t*>(kept.data()), DType::kBool, {4}, {}}};
      std::vector<float> y(12, -1);
      BufferView outputs[] = {{nullptr, DType::kFloat32, {}, {}}};
      const auto give = [](void* memory, int, DType, std::span<const int64_t>, size_t) { return memory; };
      const Status status = session.run(inputs, outputs, give, y.data());
      ASSERT_TRUE(status.ok()) << status.message();
      const auto count = std::count(kept.begin(), kept.end(), 1);
      ASSERT_EQ(outputs[0].shape, (std::vector<int64_t>{3, count}));
      for (int64_t i = 0; i < 12; ++i) {
        EXPECT_EQ(y[static_cast<size_t>(i)], i < 3 * count ? x[i / count] : -1.0f) << i;
      }
    }
  }
}

/// Graphs come with nodes that nobody reads where the passes are left out, or the text of their result was edited.
TEST(CountedElements, that_nobody_reads_are_no_step) {
  const std::string text = R"(graph "unread" {
  opset "" 28
  input %x: f32[7]
  %places: i64[1, k] = NonZero "unread" (%x)
  %y: f32[7] = Neg "read" (%x)
  output %y
})";
  CompileOptions options;
  options.tuning = Tuning::kOff;
  for (const Stage done : {Stage::kImport, Stage::kPasses}) {
    options.disabled = {"remove_dead_nodes"};
    const Engine engine = compile_from(parse_graph(text), done, options).engine;
    ASSERT_EQ(engine.steps.size(), 1u);
    EXPECT_EQ(engine.steps[0].name, "read");
  }
}

}  // namespace
}  // namespace graft
