// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "export/onnx/export.h"
#include "graph/evaluate_graph.h"
#include "import/onnx/import.h"
#include "plan/temporary_directory.h"
#include "same_graph.h"
#include "support/random_graph.h"

namespace graft {
namespace {

Graph again(const Graph& graph) {
  const std::string bytes = export_onnx_bytes(graph);
  return import_onnx_bytes(std::as_bytes(std::span(bytes)), "");
}

void expect_survives(const std::string& text) {
  const Graph graph = parse_graph(text);
  EXPECT_EQ(text_of(again(graph)), text_of(graph));
}

TEST(ExportOnnx, keeps_attributes_of_every_type) {
  expect_survives(R"(graph "g" {
  opset "" 28
  opset "my.domain" 3
  metadata "author" "somebody"
  input %x: f32[2]
  %y: f32[2] = my.domain::Odd "odd" (%x) {an_int = -3, a_real = 0.5, a_text = "t\n", ints = [1, 2],
      no_ints = ints[], reals = [0.25, inf], no_reals = floats[], strings = ["a", ""], no_strings = strings[],
      tensor = i64[2] {7, 8}, scalar = f16[] {1.5}}
  output %y
})");
}

TEST(ExportOnnx, keeps_tensors_of_every_kind) {
  expect_survives(R"(graph "g" {
  opset "" 28
  opset "my" 1
  input %x: f32[2]
  constant %packed: i4[3] = {-8, 7, 1}
  constant %complex: c64[1] = {(1.0, -2.0)}
  constant %flags: bool[2] = {1, 0}
  constant %words: str[2] = {"a", "b c"}
  constant %empty: f32[0] = {}
  constant %low: bf16[2] = {1.0, nan}
  %y: f32[2] = my::Odd "odd" (%x, %packed, %complex, %flags, %words, %empty, %low)
  output %y
})");
}

TEST(ExportOnnx, keeps_symbolic_sizes_and_what_is_left_out) {
  expect_survives(R"(graph "g" {
  opset "" 28
  opset "my" 1
  input %past: f32[batch, past, 4]
  input %new: f32[batch, length, 4]
  input %mask: f32[batch, length + past, floor_div(length, 2), max(batch, past)]
  %both: f32[batch, length + past, 4] = Concat "join" (%past, %new) {axis = 1}
  %masked: ?, _, %last: f32[2*batch - 1, 3] = my::Odd "odd" (%both, _, %mask)
  output %last
})");
}

TEST(ExportOnnx, keeps_bodies_and_what_they_capture) {
  const Graph graph = parse_graph(R"(graph "g" {
  opset "" 28
  input %which: bool[]
  input %x: f32[2]
  constant %two: f32[] = {2}
  %y: f32[2] = If "choose" (%which, %x, %x) {captures = [1, 1], else_branch = graph "other" {
      opset "" 28
      input %x: f32[2]
      constant %two: f32[] = {2}
      %z: f32[2] = Mul "mul" (%x, %two)
      output %z
    }, then_branch = graph "same" {
      opset "" 28
      input %x: f32[2]
      constant %two: f32[] = {3}
      %y: f32[2] = Mul "mul_1" (%x, %two)
      output %y
    }}
  output %y
})");
  const Graph read = again(graph);
  const TensorsByName inputs = {{"which", TensorData::from_values<int>(DType::kBool, {}, {1})},
                               {"x", TensorData::from_values<float>(DType::kFloat32, {2}, {1, -5})}};
  EXPECT_EQ(evaluate(read, inputs), evaluate(graph, inputs)) << print(read);
  EXPECT_EQ(text_of(again(read)), text_of(read));
  // The constant that is the same is the outer one; the names that mean something else inside are others there.
  const std::string bytes = export_onnx_bytes(graph);
  EXPECT_NE(bytes.find("two_1"), bytes.npos);
  EXPECT_NE(bytes.find("y_1"), bytes.npos);
}

TEST(ExportOnnx, copies_what_is_several_outputs) {
  Graph graph = parse_graph(R"(graph "g" {
  opset "" 28
  input %x: f32[2]
  %y: f32[2] = Abs "abs" (%x)
  output %y
})");
  graph.outputs.push_back(graph.outputs[0]);
  const Graph read = again(graph);
  ASSERT_EQ(read.outputs.size(), 2U);
  EXPECT_EQ(read.nodes.back().op, "Identity");
}

TEST(ExportOnnx, keeps_random_graphs_and_their_results) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Graph graph = random_graph(seed, 30);
    const Graph read = again(graph);
    const TensorsByName inputs = random_inputs(graph, seed);
    EXPECT_EQ(evaluate(read, inputs), evaluate(graph, inputs)) << "seed " << seed;
    EXPECT_EQ(text_of(again(read)), text_of(read)) << "seed " << seed;
  }
}

TEST(ExportOnnx, puts_large_weights_beside_the_model_when_asked) {
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/model.onnx";
  Graph graph;
  graph.name = "g";
  graph.opsets[""] = kOpset;
  const TensorData large = TensorData::from_values(DType::kFloat32, {64, 64}, std::vector<float>(4096, 0.5F));
  const ValueId x = graph.add_value("x", DType::kFloat32, Shape{Size(64)});
  graph.inputs = {x};
  ValueId last = x;
  for (const char* name : {"a", "b"}) {
    const ValueId weight = graph.add_constant(name, large);
    const ValueId next = graph.add_value(std::string(name) + "x", DType::kFloat32, Shape{Size(64)});
    graph.add_node({.name = name, .op = "MatMul", .inputs = {weight, last}, .outputs = {next}});
    last = next;
  }
  graph.outputs = {last};
  export_onnx(graph, path, {.external_from = 1000});
  EXPECT_LT(std::filesystem::file_size(path), 1000U);
  EXPECT_EQ(std::filesystem::file_size(path + ".data"), 4096U * 4) << "equal bytes are there once";
  EXPECT_EQ(text_of(import_onnx(path)), text_of(graph));
  export_onnx(graph, path, {.external_from = 1 << 20});
  EXPECT_GT(std::filesystem::file_size(path), 2 * 4096U * 4);
}

TEST(ExportOnnx, does_not_take_the_body_of_a_sequence_map_for_its_result) {
  // Its result is a sequence of what the body gives.
  const Graph graph = parse_graph(R"text(graph "g" {
  opset "" 28
  input %xs: "seq(f32[n])"
  %ys: "seq(f32[n])" = SequenceMap "map" (%xs) {body = graph "body" {
      opset "" 28
      input %x: f32[n]
      %y: f32[n] = Abs "abs" (%x)
      output %y
    }}
  output %ys
})text");
  const Graph read = again(graph);
  EXPECT_EQ(read.value(read.outputs[0]).dynamic_type, "seq(f32[n])");
}

/// The models of a folder, written into another one: test_conformance.py gives both, and goes on with what is written.
TEST(ExportOnnx, keeps_the_models_of_a_folder) {
  const char* from = std::getenv("GRAFT_TEST_MODELS");
  const char* to = std::getenv("GRAFT_TEST_WRITTEN");
  if (!from || !to) GTEST_SKIP() << "tests/export/test_conformance.py says which models";
  std::vector<std::filesystem::path> models;
  for (const auto& entry : std::filesystem::directory_iterator(from)) models.push_back(entry.path());
  std::sort(models.begin(), models.end());
  ASSERT_FALSE(models.empty());
  for (const auto& model : models) {
    Graph graph;
    try {
      graph = import_onnx(model);
    } catch (const Error& error) {
      continue;  // which of them have to be read is said by the test around this one
    }
    const std::string written = std::filesystem::path(to) / model.filename();
    try {
      export_onnx(graph, written);
      EXPECT_EQ(text_of(import_onnx(written)), text_of(graph)) << model.filename();
    } catch (const Error& error) {
      ADD_FAILURE() << model.filename() << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace graft
