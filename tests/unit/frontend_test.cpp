// SPDX-License-Identifier: Apache-2.0
// Foreign graphs become graphs, row by row; what cannot stays, with its reason.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "frontend/conversion.h"
#include "import/aten/rows.h"

namespace graft::frontend {
namespace {

TEST(Signature, reads_schemas_as_torch_writes_them) {
  const Signature signature = Signature::parse(
      "aten::f.int(Tensor self, SymInt[2] stride=1, int[] sizes=[1, -2], *, str mode=\"a, b\", float? p=None, "
      "float eps=1e-05, bool on=True) -> (Tensor, Tensor)");
  EXPECT_EQ(signature.op, "aten::f.int");
  ASSERT_EQ(signature.parameters.size(), 7U);
  EXPECT_EQ(signature.parameters[0].name, "self");
  EXPECT_EQ(signature.parameters[1].type, "SymInt[2]");
  EXPECT_FALSE(signature.parameters[0].has_default);
  EXPECT_EQ(std::get<int64_t>(signature.parameters[1].default_value.is), 1);
  EXPECT_EQ(std::get<int64_t>(std::get<Arguments>(signature.parameters[2].default_value.is)[1].is), -2);
  EXPECT_EQ(std::get<std::string>(signature.parameters[3].default_value.is), "a, b");
  EXPECT_TRUE(signature.parameters[4].default_value.is_none());
  EXPECT_EQ(std::get<double>(signature.parameters[5].default_value.is), 1e-5);
  EXPECT_TRUE(std::get<bool>(signature.parameters[6].default_value.is));
  EXPECT_THROW(Signature::parse("aten::f"), Error);
  EXPECT_THROW(Signature::parse("aten::f(Tensor self"), Error);
}

/// A graph of torch's, node by node.
struct Drawn {
  ForeignGraph graph;
  int input(const Shape& shape, DType type = DType::kFloat32) {
    graph.inputs.push_back(value({.name = "x", .type = type, .shape = shape}));
    return graph.inputs.back();
  }
  int weights(std::vector<int64_t> shape) {
    return value({.name = "w", .constant = TensorData::zeros(DType::kFloat32, std::move(shape))});
  }
  int value(ForeignValue value) {
    graph.values.push_back(std::move(value));
    return static_cast<int>(graph.values.size()) - 1;
  }
  int add(const std::string& op, Arguments arguments) {
    const int result = value({.name = op});
    graph.nodes.push_back({.op = op, .name = op + std::to_string(graph.nodes.size()),
                           .arguments = std::move(arguments), .outputs = {result}});
    return result;
  }
  Converted convert() { return frontend::convert(graph, aten::converters()); }
  std::string shape_of(const Converted& converted, int value) {
    std::string text;
    for (const Size& size : *converted.graph.value(converted.values[value]).shape) text += size.to_string() + " ";
    return text;
  }
};

Argument list(std::vector<int64_t> elements) {
  Arguments list;
  for (const int64_t element : elements) list.push_back(element);
  return list;
}

TEST(Conversion, a_convolution_net_is_converted_with_defaults_and_shapes) {
  Drawn net;
  const int x = net.input({Size::symbol("batch"), 3, 32, 32}), w = net.weights({8, 3, 3, 3});
  const int conv = net.add("aten::conv2d", {Reference{x}, Reference{w}, {}, list({2, 2}), list({1, 1})});
  const int relu = net.add("aten::relu", {Reference{conv}});
  const int pool = net.add("aten::max_pool2d", {Reference{relu}, list({2, 2})});
  const int flat = net.add("aten::flatten.using_ints", {Reference{pool}, int64_t{1}});
  net.graph.outputs = {net.add("aten::linear", {Reference{flat}, Reference{net.weights({10, 512})}})};
  const Converted converted = net.convert();
  for (const std::string& reason : converted.reasons) EXPECT_EQ(reason, "");
  EXPECT_EQ(net.shape_of(converted, conv), "batch 8 16 16 ");
  EXPECT_EQ(net.shape_of(converted, flat), "batch 512 ");
  EXPECT_EQ(net.shape_of(converted, net.graph.outputs[0]), "batch 10 ");
  verify(converted.graph);
}

/// A loop over a function that takes the round's number, a state, a list and `x`.
struct DrawnLoop : Drawn {
  explicit DrawnLoop(const std::function<int(Drawn&, int state, int round, int x)>& state,
                     const std::function<int(Drawn&, int state, int round, int x)>& added) {
    auto body = std::make_shared<Drawn>();
    std::vector<int>& inputs = body->graph.inputs;
    for (const char* name : {"round", "state", "list", "x"}) inputs.push_back(body->value({.name = name}));
    body->graph.values[inputs[0]].tensor = body->graph.values[inputs[2]].tensor = false;
    const int next = state(*body, inputs[1], inputs[0], inputs[3]);
    const int list = body->add("aten::append.t", {Reference{inputs[2]},
                                                  Reference{added(*body, next, inputs[0], inputs[3])}});
    body->graph.values[list].tensor = false;
    const int goes_on = body->value({.name = "goes_on", .type = DType::kBool, .shape = Shape{},
                                     .constant = TensorData::from_values<uint8_t>(DType::kBool, {}, {1}),
                                     .tensor = false});
    body->graph.outputs = {goes_on, next, list};
    x = input({Size::symbol("steps"), 4});
    const int first = input({4}), count = add("aten::size.int", {Reference{x}, int64_t{0}});
    const int empty = add("prim::ListConstruct", {});
    graph.values[empty].tensor = graph.values[count].tensor = false;
    add("prim::Loop", {Reference{count}, true, Reference{first}, Reference{empty}, Reference{x}});
    ForeignNode& node = graph.nodes.back();
    node.outputs.push_back(value({.name = "list", .tensor = false}));
    node.attributes["carried"] = int64_t{2};
    node.bodies["body"] = std::shared_ptr<const ForeignGraph>(body, &body->graph);
    this->state = node.outputs[0], this->list = node.outputs[1];
  }
  int x = 0, state = 0, list = 0;
};

int next_state(Drawn& body, int state, int round, int x) {
  const int row = body.add("aten::select.int", {Reference{x}, int64_t{0}, Reference{round}});
  return body.add("aten::add.Tensor", {Reference{state}, Reference{row}, int64_t{1}});
}
int itself(Drawn&, int state, int, int) { return state; }

TEST(Conversion, what_a_loop_appends_is_collected_along_an_axis_of_its_rounds) {
  DrawnLoop net(next_state, itself);
  const int stacked = net.add("aten::stack", {Reference{net.list}, int64_t{1}});
  const int joined = net.add("aten::cat", {Reference{net.list}});
  net.graph.outputs = {stacked, joined, net.state};
  const Converted converted = net.convert();
  for (const std::string& reason : converted.reasons) EXPECT_EQ(reason, "");
  EXPECT_EQ(net.shape_of(converted, stacked), "4 steps ");
  EXPECT_EQ(net.shape_of(converted, net.state), "4 ");
  verify(converted.graph);
}

TEST(Conversion, a_loop_that_no_engine_has_stays_with_its_reason_and_tells_what_its_function_is_given) {
  const auto grows = [](Drawn& body, int state, int, int) {
    return body.add("aten::unsqueeze", {Reference{state}, int64_t{0}});
  };
  EXPECT_EQ(DrawnLoop(grows, itself).convert().reasons[2], "value 0 changes its number of axes in a round");
  const auto whole = [](Drawn& body, int state, int, int) {
    return body.add("aten::gt.Scalar", {Reference{state}, int64_t{0}});
  };
  EXPECT_EQ(DrawnLoop(whole, itself).convert().reasons[2], "value 0 changes its type in a round: f32 becomes bool");
  const auto part = [](Drawn& body, int, int round, int x) {
    return body.add("aten::slice.Tensor", {Reference{x}, int64_t{0}, int64_t{0}, Reference{round}});
  };
  EXPECT_EQ(DrawnLoop(next_state, [&](Drawn& body, int state, int round, int x) {
              const int odd = body.add("aten::unsqueeze", {Reference{part(body, state, round, x)}, int64_t{0}});
              return odd;
            }).convert().reasons[2], "a list of tensors whose sizes change from round to round");
  const auto odd = [](Drawn& body, int state, int, int) { return body.add("my::op", {Reference{state}}); };
  const Converted converted = DrawnLoop(odd, itself).convert();
  EXPECT_EQ(converted.reasons[2], "its function 'body' has my::op 'my::op0': there is no converter for my::op");
  const std::vector<Given>& given = converted.given_to_bodies.at({2, "body"});
  ASSERT_EQ(given.size(), 4U);
  EXPECT_EQ(given[1].type, DType::kFloat32);
  EXPECT_TRUE(given[2].list);
  EXPECT_EQ((*given[3].shape)[0].to_string(), "steps");
}

TEST(Conversion, what_has_no_row_stays_and_its_result_comes_in) {
  Drawn net;
  const int x = net.input({2, 4});
  const int odd = net.add("my::op", {Reference{net.add("aten::relu", {Reference{x}})}});
  net.graph.values[odd].type = DType::kFloat32, net.graph.values[odd].shape = Shape{2, 4};
  net.graph.outputs = {net.add("aten::relu", {Reference{odd}})};
  const Converted converted = net.convert();
  EXPECT_EQ(converted.reasons[1], "there is no converter for my::op");
  EXPECT_EQ(converted.reasons[2], "");
  EXPECT_EQ(converted.graph.inputs.size(), 2U);
}

TEST(Conversion, a_refusal_takes_back_what_its_row_had_added) {
  Drawn net;
  const int x = net.input({3, 8, 8});  // without a batch, which the row puts in front
  net.graph.outputs = {net.add("aten::adaptive_max_pool2d", {Reference{x}, list({0, 3})})};
  const Converted converted = net.convert();
  EXPECT_NE(converted.reasons[0].find("without elements"), std::string::npos);
  EXPECT_TRUE(converted.graph.nodes.empty());
}

/// As TorchScript has it: one value for all parts.
TEST(Conversion, lists_of_tensors_and_sizes_are_taken_apart) {
  Drawn net;
  const int x = net.input({Size::symbol("batch"), 6, 4});
  const int list_value = net.add("aten::chunk", {Reference{x}, int64_t{2}, int64_t{1}});
  net.graph.values[list_value].tensor = false;
  const int first = net.add("aten::__getitem__.t", {Reference{list_value}, int64_t{-1}});
  const int joined = net.add("aten::cat", {Reference{list_value}, int64_t{2}});
  const int sizes = net.add("aten::size", {Reference{joined}});
  const int batch = net.add("aten::__getitem__.t", {Reference{sizes}, int64_t{0}});
  const int rows = net.add("aten::mul.int", {Reference{batch}, int64_t{3}});
  for (const int number : {sizes, batch, rows}) net.graph.values[number].tensor = false;
  net.graph.outputs = {net.add("aten::view", {Reference{joined}, Arguments{Reference{rows}, int64_t{8}}})};
  const Converted converted = net.convert();
  for (const std::string& reason : converted.reasons) EXPECT_EQ(reason, "");
  EXPECT_EQ(net.shape_of(converted, first), "batch 3 4 ");
  EXPECT_EQ(net.shape_of(converted, net.graph.outputs[0]), "3*batch 8 ");
}

TEST(Converters, operators_of_one_signature_share_a_row) {
  Converters made({});
  made.add({"my::one two other::three(Tensor self) -> Tensor", [](Conversion&) {}});
  EXPECT_EQ(made.names(), (std::vector<std::string>{"my::one", "my::two", "other::three"}));
  EXPECT_EQ(made.find("my::two")->signature.op, "my::two");
}

TEST(Conversion, what_a_definition_rejects_is_a_reason) {
  Drawn net;
  const int x = net.input({2, 4}), w = net.weights({5, 3});
  net.graph.outputs = {net.add("aten::mm", {Reference{x}, Reference{w}})};
  EXPECT_NE(net.convert().reasons[0], "");
}

TEST(Conversion, numbers_take_part_with_their_category_only) {
  Drawn net;
  const int x = net.input({2}, DType::kFloat16), i = net.input({2}, DType::kInt64);
  const int half = net.add("aten::mul.Tensor", {Reference{x}, 2.5});
  const int whole = net.add("aten::add.Tensor", {Reference{i}, int64_t{1}, int64_t{3}});
  const int real = net.add("aten::mul.Tensor", {Reference{i}, 0.5});
  const int mixed = net.add("aten::add.Tensor", {Reference{x}, Reference{i}});
  const Converted converted = net.convert();
  const auto type = [&](int value) { return converted.graph.value(converted.values[value]).type; };
  EXPECT_EQ(type(half), DType::kFloat16);
  EXPECT_EQ(type(whole), DType::kInt64);
  EXPECT_EQ(type(real), DType::kFloat32);
  EXPECT_EQ(type(mixed), DType::kFloat16);
}

TEST(Conversion, sizes_flow_into_shapes) {
  Drawn net;
  const int x = net.input({Size::symbol("batch"), 6});
  const int batch = net.add("aten::size.int", {Reference{x}, int64_t{0}});
  const int view = net.add("aten::view", {Reference{x}, Arguments{Reference{batch}, int64_t{2}, int64_t{3}}});
  const Converted converted = net.convert();
  EXPECT_EQ(converted.reasons[1], "");
  EXPECT_EQ(net.shape_of(converted, view), "batch 2 3 ");
}

TEST(Conversion, what_a_row_tells_before_it_refuses_is_known_of_the_result) {
  Converters converters({{"my::stays(T x)", [](Conversion& c) {
                            c.describe(0, c.tensor("x"));
                            c.refuse("it stays");
                          }},
                         {"my::halves(T x)", [](Conversion& c) { c.give(c.add_several("Split", {c.tensor("x")},
                            {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}}, 2)); }}});
  Drawn net;
  const int stays = net.add("my::stays", {Reference{net.input({Size::symbol("batch"), 6})}});
  const int half = net.add("my::halves", {Reference{stays}});  // whose second result nobody takes
  const Converted converted = frontend::convert(net.graph, converters);
  EXPECT_EQ(converted.reasons[0], "it stays");
  EXPECT_EQ(net.shape_of(converted, stays), "batch 6 ");
  EXPECT_EQ(net.shape_of(converted, half), "batch 3 ");
}

TEST(Conversion, a_part_takes_and_gives_what_crosses_its_border) {
  Drawn net;
  const int x = net.input({2, 4}), a = net.add("aten::relu", {Reference{x}});
  const int b = net.add("aten::neg", {Reference{a}});
  net.graph.values[a].type = DType::kFloat32, net.graph.values[a].shape = Shape{2, 4};
  const Converted part = convert(net.graph, {1}, {a}, {b}, aten::converters());
  EXPECT_EQ(part.graph.nodes.size(), 1U);
  EXPECT_EQ(part.graph.inputs.size(), 1U);
  EXPECT_EQ(part.graph.outputs.size(), 1U);
}

TEST(Conversion, sizes_that_no_input_of_a_part_tells_become_symbols_that_differ) {
  const Size length = Size::symbol("length"), half = floor_div(length, 2), third = floor_div(length, 3);
  Drawn net;
  const int first = net.input({half, Size::symbol("a_1_1_1")}), second = net.input({third, half});
  const int told = net.input({length, floor_div(Size::symbol("a_1_1_1"), 2)});
  net.graph.values[first].name = "a.1_1", net.graph.values[second].name = "a_1.1";
  const Converted part = convert(net.graph, {}, {first, second}, {}, aten::converters());
  EXPECT_EQ(net.shape_of(part, first), "a_1_1_0 a_1_1_1 ");
  EXPECT_EQ(net.shape_of(part, second), "a_1_1_0_1 a_1_1_0 ");
  EXPECT_EQ(part.renamed, (std::map<std::string, Size>{{"a_1_1_0", half}, {"a_1_1_0_1", third}}));
  const Converted whole = convert(net.graph, {}, {first, second, told}, {}, aten::converters());
  EXPECT_TRUE(whole.renamed.empty());
  EXPECT_EQ(net.shape_of(whole, second), "floor_div(length, 3) floor_div(length, 2) ");
}

TEST(Conversion, results_that_are_one_value_are_outputs_of_their_own) {
  const auto negate = [](Conversion& c) { c.give(c.add("Neg", {c.tensor("self")})); };
  const Converters converters({{"my::same(Tensor self)", [](Conversion& c) { c.give(c.tensor("self")); }},
                               {"my::neg(Tensor self)", negate}});
  Drawn net;
  const int a = net.add("my::neg", {Reference{net.input({2})}}), b = net.add("my::same", {Reference{a}});
  net.graph.outputs = {a, b};
  const Converted converted = convert(net.graph, converters);
  ASSERT_EQ(converted.graph.outputs.size(), 2U);
  EXPECT_NE(converted.graph.outputs[0], converted.graph.outputs[1]);
  EXPECT_EQ(converted.graph.nodes[1].op, "Identity");
}

TEST(Conversion, later_rows_of_an_operator_take_precedence) {
  Converters converters({{"my::op(Tensor self)", [](Conversion& c) { c.give(c.add("Relu", {c.tensor("self")})); }}});
  converters.add({"my::op(Tensor self)", [](Conversion& c) { c.give(c.add("Neg", {c.tensor("self")})); }});
  Drawn net;
  net.graph.outputs = {net.add("my::op", {Reference{net.input({2})}})};
  EXPECT_EQ(convert(net.graph, converters).graph.nodes[0].op, "Neg");
}

}  // namespace
}  // namespace graft::frontend
