// SPDX-License-Identifier: Apache-2.0
// Convolutions give the same results after their taps are summed behind their channels.
#include "plan/move_taps.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expr/interpreter.h"
#include "fuse/fused_program.h"
#include "fuse/rewrite_region.h"
#include "graph/infer.h"

namespace graft {
namespace {

/// Small numbers whose products and sums are exact.
TensorData filled(DType type, const Shape& shape) {
  TensorData data = TensorData::zeros(type, concrete(shape));
  for (int64_t i = 0; i < data.element_count(); ++i) data.write_double(i, static_cast<double>(i * 7 % 11) - 5);
  return data;
}

/// The program of relu(OPERATOR(x, w, b)), whose weights are known.
struct Case {
  Case(std::string_view node, std::string_view attributes, std::string_view x, std::string_view w, int64_t results) {
    Graph graph = parse_graph(fmt::format(R"(graph "main" {{
  opset "" 28
  input %x: {}
  input %w: {}
  input %b: f32[{}]
  %c: ? = {} "conv" (%x, %w, %b) {{{}}}
  %y: ? = Relu "relu" (%c)
  output %y
}}
)", x, w, results, node, attributes));
    verify(graph, false);
    infer_types(graph);
    program = fuse(graph);
    for (FusedTensor& tensor : program.tensors) {
      if (tensor.name == "w") tensor.constant = filled(tensor.type, tensor.shape);
    }
    step = program.steps.at(0);
  }

  /// The last output after the steps ran in the interpreter.
  TensorData run(const std::vector<FusedStep>& steps) const {
    std::vector<TensorData> values;
    for (const FusedTensor& tensor : program.tensors) {
      values.push_back(tensor.constant ? *tensor.constant : filled(tensor.type, tensor.shape));
    }
    for (const FusedStep& each : steps) {
      EXPECT_NO_THROW(verify(each.region));
      std::vector<TensorData> inputs;
      for (size_t i = 0; i < each.inputs.size(); ++i) {
        // Normalised regions see tensors without their axes of extent 1.
        const Shape& seen = each.region.tensors[each.region.inputs[i]].shape;
        inputs.push_back(values[each.inputs[i]].reshaped(concrete(seen)));
      }
      Bindings sizes;
      std::vector<TensorData> results = interpret(each.region, inputs, sizes);
      for (size_t i = 0; i < results.size(); ++i) values[each.outputs[i]] = std::move(results[i]);
    }
    const int last = steps.back().outputs[0];
    return values[last].reshaped(concrete(program.tensors[last].shape));
  }

  FusedProgram program;
  FusedStep step;
};

/// Moves the taps; the product should have `columns`.
void expect_same(std::string_view node, std::string_view attributes, std::string_view x, std::string_view w,
                 int64_t results, int64_t columns) {
  SCOPED_TRACE(fmt::format("{} {} of {} and {}", node, attributes, x, w));
  Case c(node, attributes, x, w, results);
  const TensorData expected = c.run({c.step});
  const std::vector<FusedStep> steps = move_taps(c.step, c.program.tensors);
  ASSERT_GE(steps.size(), 2u);
  EXPECT_EQ(c.program.tensors[steps[0].outputs[0]].shape.back(), Size(columns));
  EXPECT_TRUE(c.run(steps) == expected);
}

size_t steps_of(std::string_view node, std::string_view attributes, std::string_view x, std::string_view w,
                int64_t results) {
  Case c(node, attributes, x, w, results);
  return move_taps(c.step, c.program.tensors).size();
}

TEST(MoveTaps, transposed_convolutions_multiply_each_element_once) {
  expect_same("ConvTranspose", "strides = [2, 2]", "f32[2, 9, 4, 5]", "f32[9, 6, 2, 2]", 6, 24);
  expect_same("ConvTranspose", "strides = [2, 3], pads = [1, 0, 1, 2], output_padding = [1, 1]", "f32[1, 8, 4, 5]",
              "f32[8, 3, 3, 4]", 3, 36);
  expect_same("ConvTranspose", "strides = [2, 2], dilations = [2, 3]", "f32[1, 8, 4, 4]", "f32[8, 2, 3, 2]", 2, 12);
}

TEST(MoveTaps, a_single_result_has_its_taps_as_columns) {
  expect_same("ConvTranspose", "strides = [8]", "f32[2, 32, 19]", "f32[32, 1, 16]", 1, 16);
}

TEST(MoveTaps, taps_that_cannot_meet_a_place_are_not_asked) {
  const auto asked_at = [](std::string_view attributes, std::string_view w) {
    Case c("ConvTranspose", attributes, "f32[1, 8, 4, 5]", w, 4);
    const std::vector<FusedStep> steps = move_taps(c.step, c.program.tensors);
    const Form& sum = steps.at(1).region.forms.at(0);
    double taps = 1;
    for (const Axis& axis : inner_axes_of(sum)) taps *= static_cast<double>(axis.extent.constant());
    return taps;
  };
  EXPECT_EQ(asked_at("strides = [2, 2]", "f32[8, 4, 2, 2]"), 1);
  EXPECT_EQ(asked_at("strides = [2, 2], pads = [1, 1, 1, 1]", "f32[8, 4, 4, 3]"), 4);
  EXPECT_EQ(asked_at("strides = [2, 2], dilations = [3, 3]", "f32[8, 4, 2, 2]"), 4) << "steps of taps that are not one";
}

TEST(MoveTaps, one_window_may_stay_in_the_product) {
  expect_same("ConvTranspose", "strides = [1, 2], pads = [1, 1, 1, 1]", "f32[1, 8, 6, 5]", "f32[8, 20, 3, 4]", 20, 80);
}

TEST(MoveTaps, few_results_get_the_taps_of_the_last_window) {
  expect_same("Conv", "", "f32[1, 16, 9, 12]", "f32[3, 16, 5, 5]", 3, 15);
  expect_same("Conv", "pads = [2, 1, 2, 1], dilations = [2, 1]", "f32[2, 8, 9, 7]", "f32[3, 8, 3, 3]", 3, 9);
  expect_same("Conv", "pads = [1, 1, 1, 1], strides = [2, 2]", "f32[2, 8, 9, 7]", "f32[1, 8, 3, 3]", 1, 3);
}

TEST(MoveTaps, what_gains_nothing_stays) {
  EXPECT_EQ(steps_of("Conv", "", "f32[1, 16, 9, 12]", "f32[32, 16, 3, 3]", 32), 1u) << "columns are many as it is";
  EXPECT_EQ(steps_of("Conv", "", "f32[1, 16, 9, 12]", "f32[3, 16, 1, 1]", 3), 1u) << "there are no taps";
  EXPECT_EQ(steps_of("Conv", "", "f32[1, 2, 9, 12]", "f32[3, 2, 3, 3]", 3), 1u) << "sums of six are no product";
  EXPECT_EQ(steps_of("Conv", "group = 12", "f32[1, 12, 9, 12]", "f32[12, 1, 3, 3]", 12), 1u) << "nothing is summed";
}

}  // namespace
}  // namespace graft
