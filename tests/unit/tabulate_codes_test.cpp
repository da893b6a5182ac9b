// SPDX-License-Identifier: Apache-2.0
// Functions of codes as tables give what their nodes gave, for every code.
#include <algorithm>

#include <gtest/gtest.h>

#include "graph/evaluate_graph.h"
#include "graph/infer.h"
#include "passes/passes.h"
#include "support/run_generated.h"

namespace graft {
namespace {

/// The activation x * sigmoid(x) as a quantiser writes it: each operator's result is quantised.
std::string silu(const std::string& type, const std::string& zero) {
  return R"(graph "main" {
  opset "" 22
  input %q: )" + type + R"([4, 64]
  constant %s: f32[] = {0.05}
  constant %z: )" + type + "[] = {" + zero + R"(}
  constant %t: f32[1] = {0.00390625}
  constant %u: f32[] = {0.04}
  %a: ? = DequantizeLinear "da" (%q, %s, %z)
  %b: ? = Sigmoid "sigmoid" (%a)
  %c: ? = QuantizeLinear "qb" (%b, %t)
  %d: ? = DequantizeLinear "dc" (%c, %t)
  %e: ? = Mul "mul" (%a, %d)
  %y: ? = QuantizeLinear "qy" (%e, %u, %z)
  output %y
})";
}

TensorData all_codes(DType type, const std::vector<int64_t>& shape) {
  TensorData codes = TensorData::zeros(type, shape);
  for (int64_t n = 0; n < codes.element_count(); ++n) {
    codes.write_integer(n, type == DType::kInt8 ? n % 256 - 128 : n % 256);
  }
  return codes;
}

int count_of(const Graph& graph, std::string_view op) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [&](const Node& node) { return node.op == op; }));
}

Graph tabulated(const std::string& text) {
  Graph graph = parse_graph(text);
  infer_types(graph);
  PassContext context;
  context.looks_up_bytes = true;
  passes::tabulate_codes(graph, context);
  infer_types(graph);
  return graph;
}

TEST(TabulateCodes, a_chain_of_quantised_operators_is_one_table) {
  for (const auto& [name, zero] : std::vector<std::pair<std::string, std::string>>{{"u8", "90"}, {"i8", "-7"}}) {
    Graph plain = parse_graph(silu(name, zero));
    infer_types(plain);
    const Graph graph = tabulated(silu(name, zero));
    EXPECT_EQ(graph.nodes.size(), 1u) << print(graph);
    EXPECT_EQ(count_of(graph, "LookupTable"), 1);
    const DType type = name == "u8" ? DType::kUint8 : DType::kInt8;
    const TensorsByName inputs = {{"q", all_codes(type, {4, 64})}};
    EXPECT_EQ(first_difference(evaluate(plain, inputs)[0], evaluate(graph, inputs)[0], 0), std::nullopt) << name;
  }
}

TEST(TabulateCodes, a_quantiser_of_unknown_rank_or_another_type_stays) {
  const Graph wide = tabulated(R"(graph "main" {
  opset "" 22
  input %q: u8[3]
  constant %s: f32[] = {0.05}
  constant %z: i16[] = {0}
  %a: ? = DequantizeLinear "da" (%q, %s)
  %b: ? = Sigmoid "sigmoid" (%a)
  %y: ? = QuantizeLinear "qb" (%b, %s, %z)
  output %y
})");
  EXPECT_EQ(count_of(wide, "LookupTable"), 0);
}

TEST(TabulateCodes, what_others_read_is_still_there) {
  const Graph graph = tabulated(R"(graph "main" {
  opset "" 22
  input %q: u8[3, n]
  constant %s: f32[] = {0.05}
  %a: ? = DequantizeLinear "da" (%q, %s)
  %b: ? = Sigmoid "sigmoid" (%a)
  %y: ? = QuantizeLinear "qb" (%b, %s)
  output %y
  output %b
})");
  EXPECT_EQ(count_of(graph, "LookupTable"), 1);
  EXPECT_EQ(count_of(graph, "Sigmoid"), 1);
}

TEST(TabulateCodes, kernels_find_every_code) {
  for (const std::string& target : cpu_targets()) {
    for (const char* type : {"u8", "i8"}) {
      // Behind a product, with sizes that no vector divides.
      const std::string text = std::string(R"(graph "main" {
  opset "" 22
  opset "graft" 1
  input %q: )") + type + R"([7, 37]
  input %t: u8[256]
  %y: ? = graft::LookupTable "table" (%q, %t)
  output %y
})";
      Graph graph = parse_graph(text);
      infer_types(graph);
      const DType codes = type == std::string("u8") ? DType::kUint8 : DType::kInt8;
      TensorData table = TensorData::zeros(DType::kUint8, {256});
      for (int64_t n = 0; n < 256; ++n) table.write_integer(n, n * 91 % 256);
      const std::map<std::string, TensorData> inputs = {{"q", all_codes(codes, {7, 37})}, {"t", table}};
      std::vector<TensorData> results;
      const Status status = run_engine(engine_for(graph, target), inputs, results);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(first_difference(evaluate(graph, {inputs.begin(), inputs.end()})[0], results[0], 0), std::nullopt)
          << target << " " << type;
    }
  }
}

}  // namespace
}  // namespace graft
