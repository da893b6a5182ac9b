// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "graph/graph.h"

namespace graft {
namespace {

constexpr std::string_view kExample = R"text(graph "main" {
  opset "" 28
  opset "com.example" 1
  metadata "producer" "a \"quoted\" name"
  range batch 1 8 64
  input %x: f32[batch, 4]
  input %"odd name": i64[2] as [batch, 8*batch + 3]
  input %list: "seq(f32[2])"
  input %unknown: ?
  constant %w: f32[4, 2] = {1, 2, 3.5, -0, inf, -inf, nan, 1e-45}
  constant %same: f16[40] = all 0.5
  constant %s: str[2] = {"a\x00b", "line\nbreak"}
  %y: f32[batch, 2] = MatMul "/encoder/MatMul" (%x, %w)
  _, %z: ?[floor_div(batch + 1, 2)] = com.example::Odd "odd" (%y, _) {alpha = 1.0, axes = [1, -2], body = graph "then" {
      input %y: f32[batch, 2]
      %r: f32[batch, 2] = Relu "relu" (%y)
      output %r
    }, empty = floats[], mode = "linear", none_at_all = none, ratio = [1.5, nan], t = i64[2] {3, 4}, words = ["a", "b"]}
  output %z
  output %x
}
)text";

std::string error_of(std::string_view text) {
  try {
    parse_graph(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel) << error.what();
    return error.what();
  }
  return "";
}

TEST(GraphText, prints_what_it_reads) {
  const Graph graph = parse_graph(kExample);
  EXPECT_EQ(print(graph), kExample);
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.nodes[1].domain, "com.example");
  EXPECT_EQ(graph.nodes[1].outputs[0], kNoValue);
  EXPECT_EQ(graph.nodes[1].inputs[1], kNoValue);
  EXPECT_EQ(graph.symbol_ranges.at("batch").max, 64);
  EXPECT_EQ(graph.value(graph.find_value("z")).producer, 1);
  const Value& sizes = graph.value(graph.find_value("odd name"));
  EXPECT_EQ(sizes.content->at(1), Size::symbol("batch") * 8 + 3);
}

TEST(GraphText, keeps_every_bit_of_every_element_type) {
  std::mt19937_64 random(7);
  for (int code = 1; code <= 26; ++code) {
    const auto type = dtype_from_onnx(code);
    if (!type || *type == DType::kString) continue;
    Graph graph;
    TensorData data = TensorData::zeros(*type, {16});
    if (*type == DType::kBool) {
      for (int i = 0; i < 16; ++i) data.write_integer(i, static_cast<int64_t>(random() % 2));
    } else {
      for (std::byte& byte : data.mutable_bytes()) byte = static_cast<std::byte>(random());
    }
    if (kind_of(*type) == DTypeKind::kComplex) data = TensorData::zeros(*type, {16});
    graph.add_constant("c", data);
    const Graph again = parse_graph(print(graph));
    EXPECT_TRUE(*again.value(0).constant == data) << print(graph);
  }
}

TEST(GraphText, keeps_floats_exactly) {
  std::mt19937_64 random(11);
  std::vector<float> values;
  std::vector<double> doubles;
  for (int i = 0; i < 16; ++i) {
    values.push_back(std::ldexp(static_cast<float>(random()), -static_cast<int>(random() % 180)));
    doubles.push_back(std::ldexp(static_cast<double>(random()), -static_cast<int>(random() % 1100)));
  }
  Graph graph;
  graph.add_constant("f", TensorData::from_values(DType::kFloat32, {16}, values));
  graph.add_constant("d", TensorData::from_values(DType::kFloat64, {16}, doubles));
  const Graph again = parse_graph(print(graph));
  EXPECT_TRUE(*again.value(0).constant == *graph.value(0).constant);
  EXPECT_TRUE(*again.value(1).constant == *graph.value(1).constant);
}

TEST(GraphText, large_constants_travel_beside_the_text) {
  Graph graph;
  std::vector<float> values(100);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.5f;
  graph.add_constant("w", TensorData::from_values(DType::kFloat32, {10, 10}, values));
  const std::string text = print(graph);
  auto weights = large_constants(graph);
  ASSERT_EQ(weights.count("w"), 1u);
  const Graph again = parse_graph(text, &weights);
  EXPECT_TRUE(*again.value(0).constant == *graph.value(0).constant);
  EXPECT_NE(error_of(text).find("give it as weights"), std::string::npos);
  weights["w"].write_double(3, 99);
  EXPECT_THROW(parse_graph(text, &weights), Error);
}

TEST(GraphText, names_the_line_of_a_mistake) {
  EXPECT_NE(error_of("graph \"g\" {\n  output %x\n}").find("line 2"), std::string::npos);
  EXPECT_NE(error_of("graph \"g\" {\n  output %x\n}").find("'x'"), std::string::npos);
}

TEST(GraphText, refuses_what_breaks_single_assignment) {
  EXPECT_NE(error_of("graph \"g\" { input %x: f32[] input %x: f32[] }"), "");
  EXPECT_NE(error_of("graph \"g\" { %x: f32[] = Relu \"r\" (%x) }"), "");
  EXPECT_NE(error_of("graph \"g\" { input %x: f32[] %a: f32[] = Relu \"r\" (%x) %b: f32[] = Relu \"r\" (%x) }"), "");
  EXPECT_NE(error_of("graph \"g\" { input %x: f32[-3] }"), "");
  EXPECT_NE(error_of("graph \"g\" { constant %x: u8[1] = {256} }"), "");
  EXPECT_NE(error_of("graph \"g\" { constant %x: f32[1000000000000] = {1} }"), "");
  EXPECT_NE(error_of("graph \"g\" { constant %x: f32[1000000000000] = all 1 }"), "");
  EXPECT_NE(error_of("graph \"g\" { input %x: f32[(a + b)*(c + d)] }"), "");
  EXPECT_NE(error_of(std::string(100000, '(')), "");
}

TEST(GraphText, survives_any_change_of_its_bytes) {
  std::mt19937 random(3);
  for (int round = 0; round < 4000; ++round) {
    std::string text(kExample);
    for (int edits = 0; edits < 3 && !text.empty(); ++edits) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        case 2:
          text.insert(at, std::string(kExample.substr(random() % kExample.size(), random() % 30)));
          break;
        default:
          text.resize(at + 1);
      }
    }
    try {
      const std::string printed = print(parse_graph(text));
      EXPECT_EQ(print(parse_graph(printed)), printed);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel) << error.what();
    }
  }
}

}  // namespace
}  // namespace graft
