// SPDX-License-Identifier: Apache-2.0
// Tensors without elements have no memory that a wrong index could be turned to.
#include <gtest/gtest.h>

#include "driver/compile.h"
#include "driver/load.h"
#include "plan/sample_plan.h"

namespace graft {
namespace {

std::shared_ptr<const LoadedEngine> engine_of(const std::string& statements, bool interpret) {
  CompileOptions options;
  options.threads = 2;
  options.tuning = Tuning::kOff;
  options.interpret = interpret;
  const std::string text = "graph \"empty\" {\n  opset \"\" 28\n" + statements + "}\n";
  return load(compile_from(parse_graph(text), Stage::kImport, options).engine);
}

TEST(EmptyTensors, that_are_gathered_from_are_an_error_and_not_read) {
  for (const bool interpret : {true, false}) {
    Session session(engine_of("  input %table: f32[n, 300]\n  input %index: i64[2]\n"
                              "  %y: ? = Gather \"look\" (%table, %index) {axis = 0}\n  output %y\n", interpret));
    const int64_t index[] = {0, -1};
    std::vector<float> y(600);
    const BufferView inputs[] = {{nullptr, DType::kFloat32, {0, 300}, {}},
                                 {const_cast<int64_t*>(index), DType::kInt64, {2}, {}}};
    BufferView outputs[] = {{y.data(), DType::kFloat32, {2, 300}, {}}};
    const Status status = session.run(inputs, outputs);
    EXPECT_EQ(status.kind(), ErrorKind::kInvalidArgument) << status.message();
    EXPECT_NE(status.message().find("out of range"), std::string::npos) << status.message();
  }
}

TEST(EmptyTensors, that_are_scattered_to_are_an_error_and_not_written) {
  for (const bool interpret : {true, false}) {
    Session session(engine_of("  input %data: f32[n, 8]\n  input %index: i64[2, 1]\n  input %updates: f32[2, 8]\n"
                              "  %y: ? = ScatterND \"put\" (%data, %index, %updates)\n  output %y\n", interpret));
    const int64_t index[] = {0, 0};
    std::vector<float> updates(16, 1), around(64, 2);
    const BufferView inputs[] = {{nullptr, DType::kFloat32, {0, 8}, {}},
                                 {const_cast<int64_t*>(index), DType::kInt64, {2, 1}, {}},
                                 {updates.data(), DType::kFloat32, {2, 8}, {}}};
    BufferView outputs[] = {{around.data(), DType::kFloat32, {0, 8}, {}}};
    const Status status = session.run(inputs, outputs);
    EXPECT_EQ(status.kind(), ErrorKind::kInvalidArgument) << status.message();
    EXPECT_EQ(around, std::vector<float>(64, 2));
  }
}

TEST(EmptyTensors, have_no_elements_that_padding_repeats) {
  for (const bool interpret : {true, false}) {
    for (const char* mode : {"edge", "reflect", "wrap"}) {
      Session session(engine_of("  input %x: f32[n, 3]\n  constant %pads: i64[4] = {2, 0, 1, 0}\n"
                                "  %y: ? = Pad \"widen\" (%x, %pads) {mode = \"" + std::string(mode) +
                                    "\"}\n  output %y\n", interpret));
      std::vector<float> y(9, 5);
      const BufferView inputs[] = {{nullptr, DType::kFloat32, {0, 3}, {}}};
      BufferView outputs[] = {{y.data(), DType::kFloat32, {3, 3}, {}}};
      const Status status = session.run(inputs, outputs);
      EXPECT_EQ(status.kind(), ErrorKind::kInvalidArgument) << status.message();
      EXPECT_NE(status.message().find("an empty axis has no elements to repeat"), std::string::npos)
          << status.message();
      EXPECT_EQ(y, std::vector<float>(9, 5));
    }
  }
}

TEST(EmptyTensors, have_rows_of_no_elements) {
  for (const bool interpret : {true, false}) {
    Session session(engine_of("  input %x: f32[0, 5, 3]\n  input %w: f32[1, 12, 3]\n  input %r: f32[1, 12, 4]\n"
                              "  %y: ?, %h: ? = GRU \"cell\" (%x, %w, %r) {hidden_size = 4, layout = 1}\n"
                              "  output %h\n", interpret));
    std::vector<float> w(36, 1), r(48, 1);
    const BufferView inputs[] = {{nullptr, DType::kFloat32, {0, 5, 3}, {}},
                                 {w.data(), DType::kFloat32, {1, 12, 3}, {}},
                                 {r.data(), DType::kFloat32, {1, 12, 4}, {}}};
    float h = 0;
    BufferView outputs[] = {{&h, DType::kFloat32, {0, 1, 4}, {}}};
    const Status status = session.run(inputs, outputs);
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

}  // namespace
}  // namespace graft
