// SPDX-License-Identifier: Apache-2.0
// Definitions by users: what their text means, and what is wrong with one, where.
#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "graph/custom_operator.h"
#include "graph/evaluate_graph.h"
#include "graph/infer.h"
#include "ops/custom_operator.h"

namespace graft {
namespace {

constexpr std::string_view kScale = R"(operator lab::Scale {
  "x times a factor"
  type T: float
  attribute factor: real = 2
  input x: T[...]
  output y: T[...]
  compute y over [...] { value x[...] * factor }
}
)";

/// An operator with f32 inputs `x: f32[..., n]` and an output `y: f32[..., n]`.
std::string with_body(const std::string& body) {
  return "operator lab::Odd {\n  input x: f32[..., n]\n  output y: f32[..., n]\n" + body + "\n}\n";
}

/// The graph of one node of the operator, whose inputs are constants.
Graph applied(const std::string& definition, const std::vector<TensorData>& inputs, Attributes attributes = {},
              size_t outputs = 1) {
  const CustomOperator op = parse_custom_operators(definition, "test").at(0);
  Graph graph;
  graph.opsets[""] = kOpset;
  Node node{.name = "node", .domain = op.domain, .op = op.name, .attributes = std::move(attributes)};
  node.attributes["definition"] = op.text;
  for (const TensorData& input : inputs) node.inputs.push_back(graph.add_constant("x", input));
  for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(graph.add_value("y", DType::kUndefined));
  graph.outputs = node.outputs;
  graph.add_node(std::move(node));
  return graph;
}

std::vector<TensorData> results(const std::string& definition, const std::vector<TensorData>& inputs,
                                Attributes attributes = {}, size_t outputs = 1) {
  const Graph graph = applied(definition, inputs, std::move(attributes), outputs);
  return evaluate_node(graph.nodes[0], inputs);
}

TensorData f32(std::vector<int64_t> shape, const std::vector<float>& values) {
  return TensorData::from_values(DType::kFloat32, std::move(shape), values);
}

/// The message, with its place, with which a text is refused.
std::string refusal(const std::string& text) {
  try {
    parse_custom_operators(text, "own.graftops");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    return error.what();
  }
  return "";
}

void expect_refused(const std::string& text, std::initializer_list<std::string_view> parts) {
  const std::string message = refusal(text);
  for (const std::string_view part : parts) {
    EXPECT_NE(message.find(part), message.npos) << "'" << message << "' lacks '" << part << "'\n" << text;
  }
}

TEST(CustomOperator, is_read_with_what_its_header_says) {
  const std::vector<CustomOperator> operators = parse_custom_operators(std::string(kScale) + with_body(
      "  compute y over [..., i < n] { value x[..., i] }"), "test");
  ASSERT_EQ(operators.size(), 2U);
  EXPECT_EQ(operators[0].domain, "lab");
  EXPECT_EQ(operators[0].name, "Scale");
  EXPECT_EQ(operators[0].doc, "x times a factor");
  EXPECT_EQ(operators[0].types.at(0).allowed.size(), 4U);
  EXPECT_EQ(std::get<double>(operators[0].attributes.at(0).default_value), 2);
  EXPECT_EQ(operators[0].text + "\n", kScale);
  EXPECT_EQ(operators[1].inputs.at(0).sizes, (Shape{Size::symbol("n")}));
}

TEST(CustomOperator, computes_for_each_rank_and_type_with_attributes_of_the_node) {
  const TensorData matrix = f32({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(results(std::string(kScale), {matrix})[0], f32({2, 2}, {2, 4, 6, 8}));
  EXPECT_EQ(results(std::string(kScale), {matrix}, {{"factor", 0.5}})[0], f32({2, 2}, {.5F, 1, 1.5F, 2}));
  TensorData half = TensorData::zeros(DType::kFloat16, {});
  half.write_double(0, 3);
  EXPECT_EQ(results(std::string(kScale), {half})[0].read_double(0), 6);
}

TEST(CustomOperator, broadcasts_the_axes_of_the_ellipsis) {
  const std::string sum = R"(operator lab::Sum {
  input a: f32[...]
  input b: f32[...]
  output y: f32[...]
  compute y over [...] { value a[...] + b[...] }
})";
  EXPECT_EQ(results(sum, {f32({2, 1}, {1, 2}), f32({3}, {10, 20, 30})})[0],
            f32({2, 3}, {11, 21, 31, 12, 22, 32}));
}

TEST(CustomOperator, folds_by_name_and_by_a_monoid_of_its_own) {
  const std::string largest = R"(operator lab::Largest {
  input x: f32[..., n]
  output value: f32[...]
  output place: i64[...]
  output centred: f32[..., n]
  reduce sum over [...] fold add [k < n] { lift x[..., k] }
  reduce value, place over [...] fold [k < n] ordered {
    left v: f32, p: i64
    right w: f32, q: i64
    lift x[..., k], k
    identity -inf, -1
    combine select(w > v, w, v), select(w > v, q, p)
  }
  compute centred over [..., i < n] { value x[..., i] - sum[...] / n }
})";
  const auto outputs = results(largest, {f32({2, 3}, {1, 5, 3, 9, 2, 4})}, {}, 3);
  EXPECT_EQ(outputs[0], f32({2}, {5, 9}));
  EXPECT_EQ(outputs[1].read_integer(0), 1);
  EXPECT_EQ(outputs[1].read_integer(1), 0);
  EXPECT_EQ(outputs[2], f32({2, 3}, {-2, 2, 0, 4, -3, -1}));
}

TEST(CustomOperator, sorts_what_it_keeps_and_computes_with_their_number) {
  const std::string best = R"(operator lab::Best {
  input x: f32[n]
  output ordered: f32[kept]
  output share: f32[kept]
  compact positive count [kept] over [i < n] { condition x[i] > 0 values x[i] }
  sort ordered over [] along [t < kept] keep [kept] descending { key positive[t] }
  compute share over [i < kept] { value positive[i] / kept }
})";
  const auto outputs = results(best, {f32({5}, {1, -2, 3, -4, 8})}, {}, 2);
  EXPECT_EQ(outputs[0], f32({3}, {8, 3, 1}));
  EXPECT_EQ(outputs[1], f32({3}, {1.0F / 3, 1, 8.0F / 3}));
}

TEST(CustomOperator, scans_scatters_sorts_and_keeps) {
  const std::string all = R"(operator lab::All {
  attribute k: integer = 2
  input x: f32[n]
  output sums: f32[n]
  output top: f32[k]
  output twice: f32[n]
  output positive: f32[kept]
  scan sums over [] along [t < n] { state s: f32 initial 0 step s + x[t] emit s }
  sort top, places over [] along [t < n] keep [k] descending { key x[t] }
  scatter twice from x add over [i < n] { indices i value x[i] }
  compact positive count [kept] over [i < n] { condition x[i] > 0 values x[i] }
})";
  const auto outputs = results(all, {f32({4}, {1, -2, 3, -4})}, {}, 4);
  EXPECT_EQ(outputs[0], f32({4}, {1, -1, 2, -2}));
  EXPECT_EQ(outputs[1], f32({2}, {3, 1}));
  EXPECT_EQ(outputs[2], f32({4}, {2, -4, 6, -8}));
  EXPECT_EQ(outputs[3], f32({2}, {1, 3}));
}

TEST(CustomOperator, cannot_read_outside_of_a_tensor) {
  const std::string body = "  compute y over [..., i < n] { value x[..., i + 1] }";
  EXPECT_THROW(results(with_body(body), {f32({3}, {1, 2, 3})}), Error);
  const std::string inside = "  compute y over [..., i < n] { value select(i + 1 < n, x[..., i + 1], 0) }";
  EXPECT_EQ(results(with_body(inside), {f32({3}, {1, 2, 3})})[0], f32({3}, {2, 3, 0}));
}

TEST(CustomOperator, leaves_indices_alone_that_are_seen_to_be_inside) {
  const Graph graph = applied(with_body("  compute y over [..., i < n] { value x[..., n - 1 - i] }"),
                              {f32({3}, {1, 2, 3})});
  EXPECT_EQ(print(define(graph.nodes[0], graph).region).find("check_index"), std::string::npos);
}

TEST(CustomOperator, infers_shapes_in_the_sizes_of_the_network) {
  Graph graph = parse_graph(R"(graph "g" {
  opset "" 28
  opset "lab" 1
  input %x: f32[batch, length, 8]
  %y: ? = lab::Halve "halve" (%x) { definition = "operator lab::Halve {
    input x: f32[..., n]
    output y: f32[..., floor_div(n, 2)]
    compute y over [..., i < floor_div(n, 2)] { value x[..., 2 * i] }
  }" }
  output %y
}
)");
  infer_types(graph);
  EXPECT_EQ(to_string(*graph.value(graph.outputs[0]).shape), "[batch, length, 4]");
  EXPECT_EQ(graph.value(graph.outputs[0]).type, DType::kFloat32);
}

TEST(CustomOperator, of_a_wrong_text_is_refused_with_file_line_column_and_what_is_expected) {
  expect_refused("", {"own.graftops, line 1, column 1", "expected a definition"});
  expect_refused("operator Scale {}", {"line 1, column 16", "a domain of your own and a name"});
  expect_refused("operator ai.onnx::Relu {}", {"the domain ai.onnx is taken"});
  expect_refused("operator graft::Rows {}", {"the domain graft is taken"});
  expect_refused(
      "operator lab::X { input x: f32[n] output y: f32[a] output z: f32[b]\n"
      "compact y count [a] over [i < n] { condition x[i] > 0 values x[i] }\n"
      "compact z count [b] over [i < n] { condition x[i] < 0 values x[i] } }",
      {"line 3", "a definition has one compact"});
  expect_refused("operator lab::X { output y: f32[] }", {"expected an input"});
  expect_refused("operator lab::X { input x: f32[2*n] output y: f32[] }", {"the size 'n' is never an axis by itself"});
  expect_refused("operator lab::X { type T: float input x: f32[] output y: f32[] }", {"no input is of the type 'T'"});
  expect_refused("operator lab::X { type T: str input x: T[] output y: T[] }", {"do not compute with str"});
  expect_refused(with_body("  compute y over [..., i < n] { value z[..., i] }"),
                 {"own.graftops, line 4, column 40", "'z' is not a tensor here"});
  expect_refused(with_body("  compute y over [..., i < m] { value x[..., i] }"), {"line 4", "'m' is no size here"});
  expect_refused(with_body("  compute y over [..., i < n] { value x[i] }"), {"line 4", "declared with '...'"});
  expect_refused(with_body("  compute y over [..., i < 5] { value x[..., i] }"),
                 {"the output 'y' has the shape", "but is declared with"});
  expect_refused(with_body("  compute z over [..., i < n] { value x[..., i] }"), {"the output 'y' has no value"});
  expect_refused(with_body("  compute x over [..., i < n] { value 1 }"), {"'x' has a value already"});
  expect_refused(with_body("  compute y over [..., i < n] { value x[..., i] < 1 < 2 }"), {"line 4"});
  expect_refused(std::string(kScale) + std::string(kScale), {"own.graftops, line 9, column 1", "defined twice"});
}

TEST(CustomOperator, says_which_input_does_not_fit) {
  const auto misfit = [](const std::string& inputs, const std::string& value,
                         const std::vector<TensorData>& given) -> std::string {
    const std::string text = "operator lab::Fit {\n  type T: f32, f64\n" + inputs + "\n  output y: f32[1]\n" +
                             "  compute y over [i < 1] { value cast<f32>(" + value + ") }\n}\n";
    try {
      Graph graph = applied(text, given);
      infer_types(graph);
    } catch (const Error& error) {
      return error.message();
    }
    return "fits";
  };
  const auto of = [](DType type, std::vector<int64_t> shape) { return TensorData::zeros(type, std::move(shape)); };
  const DType f32 = DType::kFloat32, f64 = DType::kFloat64;
  struct Row {
    const char *inputs, *value;
    std::vector<TensorData> given;
    const char* message;
  };
  const std::string pair = "input x: T[n, 3]\ninput z: T[n]", value = "x[0, 0] + z[0]";
  const Row rows[] = {
      {"input x: T[n, 3]", "x[0, 0]", {of(f32, {2, 3})}, "fits"},
      {"input x: T[n, 3]", "x[0, 0]", {of(f64, {2, 3})}, "fits"},
      {"input x: T[n, 3]", "x[0, 0]", {of(f32, {2})}, "its input 'x' has 1 axes, but the definition wants 2"},
      {"input x: T[n, 3]", "x[0, 0]", {of(f32, {2, 2, 3})}, "its input 'x' has 3 axes, but the definition wants 2"},
      {"input x: T[n, 3]", "x[0, 0]", {of(f32, {2, 4})}, "does not have the shape of the definition, [n, 3]"},
      {"input x: T[n, 3]", "x[0, 0]", {of(DType::kFloat16, {2, 3})}, "the definition wants one of f32, f64"},
      {"input x: T[..., n, 3]", "n", {of(f32, {3})},
       "its input 'x' has 1 axes, but the definition wants at least 2"},
      {"input x: T[..., n, 3]", "n", {of(f32, {2, 4})}, "does not have the shape of the definition, [..., n, 3]"},
      {"input x: T[..., n, 3]", "n", {of(f32, {2, 3})}, "fits"},
      {"input x: T[..., n, 3]", "n", {of(f32, {5, 2, 3})}, "fits"},
      {pair.c_str(), value.c_str(), {of(f32, {2, 3}), of(f32, {2})}, "fits"},
      {pair.c_str(), value.c_str(), {of(f32, {2, 3}), of(f32, {3})}, "its input 'z' does not have the shape"},
      {pair.c_str(), value.c_str(), {of(f32, {2, 3}), of(f64, {2})}, "another one of the type T is f32"},
      {"input x: T[n, n + 1]", "x[0, 0]", {of(f32, {2, 3})}, "fits"},
      {"input x: T[n, n + 1]", "x[0, 0]", {of(f32, {2, 2})}, "does not have the shape of the definition"},
      {"input x: T[]\ninput z: i32[2]", "x[]", {of(f32, {}), of(f32, {2})}, "its input 'z' is f32, but"},
  };
  for (const Row& row : rows) {
    const std::string found = misfit(row.inputs, row.value, row.given);
    EXPECT_NE(found.find(row.message), std::string::npos)
        << row.inputs << " given " << describe(row.given[0]) << ": " << found << "\nexpected: " << row.message;
  }
}

TEST(CustomOperator, of_the_wrong_types_is_refused_when_it_is_read) {
  expect_refused(R"(operator lab::Half {
  type T: number
  input x: T[...]
  output y: T[...]
  compute y over [...] { value x[...] * 0.5 }
})",
                 {"line 5", "a whole number is expected beside a value of type i64", "T = i64"});
}

TEST(CustomOperator, of_hostile_text_is_refused_in_time) {
  expect_refused(with_body("  compute y over [..., i < n] { value " + std::string(30000, '(') + " }"),
                 {"nests too deeply"});
  expect_refused(with_body("  compute y over [..., i < n] { value " + std::string(60000, '-') + "1 }"),
                 {"nests too deeply"});
  std::string chain = "x[..., i]";
  for (int i = 0; i < 5000; ++i) chain += "+1";
  expect_refused(with_body("  compute y over [..., i < n] { value " + chain + " }"), {"too deep"});
  expect_refused(with_body("  compute y over [..., i < n] { value x[..., i] }" + std::string(70000, ' ')),
                 {"more than 64 KiB"});
  expect_refused("operator lab::X { input x: f32[" + std::string(70000, 'n') + "] output y: f32[] }", {"too long"});
  expect_refused("operator lab::X { \"no end\n\" }", {"between double quotes, on one line"});
}

TEST(CustomOperator, of_mutated_text_is_refused_or_computes_inside_its_tensors) {
  const std::string whole = R"(operator lab::All {
  attribute k: integer = 2
  input x: f32[..., n]
  input j: i64[n]
  output sums: f32[..., n]
  output top: f32[..., k]
  output picked: f32[..., n]
  output positive: f32[kept]
  scan sums over [...] along [t < n] reverse { state s: f32 initial 0 step s + x[..., t] emit s * 2 }
  sort top, places over [...] along [t < n] keep [k] descending { key x[..., t] }
  scatter moved from sums add over [..., i < n] { indices ..., mod(i + 1, n) value x[..., i] condition x[..., i] > 0 }
  compute picked over [..., i < n] { let h = j[i] value select(h < n, moved[..., h], 0.5) + exp(-1.0) }
  compact positive count [kept] over [..., i < n] { condition x[..., i] > 0 values x[..., i] }
}
)";
  const std::vector<TensorData> inputs = {f32({1, 3}, {1, -2, 3}),
                                          TensorData::from_values<int64_t>(DType::kInt64, {3}, {2, 0, 7})};
  EXPECT_EQ(results(whole, inputs, {}, 4).size(), 4U);
  constexpr std::string_view kPieces[] = {"...", "9", "-1", "i64", "n", "x", "+", "[", "}", "select(", "inf",
                                          "moved", "/"};
  Random random(20);
  int computed = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole;
    const auto place = [&] { return static_cast<size_t>(random.integer(0, static_cast<int64_t>(text.size()) - 1)); };
    if (round % 3 == 0) {
      text.erase(place(), static_cast<size_t>(random.integer(1, 7)));
    } else if (round % 3 == 1) {
      text.insert(place(), kPieces[random.integer(0, std::size(kPieces) - 1)]);
    } else {
      text.replace(place(), 1, kPieces[random.integer(0, std::size(kPieces) - 1)]);
    }
    try {
      results(text, inputs, {}, 4);
      ++computed;
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::kInternal) << "round " << round << ": " << error.what() << "\n" << text;
    }
  }
  EXPECT_GT(computed, 100);
}

TEST(CustomOperator, that_a_node_carries_is_checked_like_one_that_the_caller_gives) {
  const auto carried = [](const std::string& text) {
    const std::string graph = "graph \"g\" {\n  opset \"\" 28\n  opset \"lab\" 1\n  input %x: f32[2]\n"
                              "  %y: ? = lab::Odd \"odd\" (%x) { definition = \"" + text + "\" }\n  output %y\n}\n";
    try {
      Graph parsed = parse_graph(graph);
      infer_types(parsed);
      verify(parsed, /*trusted=*/false);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel) << error.what();
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(carried("nonsense").find("node 'odd' (Odd), its definition, line 1, column 1"), std::string::npos);
  EXPECT_NE(carried("operator lab::Even { input x: f32[n] output y: f32[n] }").find("carries the definition of"),
            std::string::npos);
  EXPECT_NE(carried("operator lab::Odd { input x: i64[n] output y: i64[n] }").find("but the definition wants i64"),
            std::string::npos);
}

}  // namespace
}  // namespace graft
