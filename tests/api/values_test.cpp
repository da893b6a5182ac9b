// SPDX-License-Identifier: Apache-2.0
// Strings, sequences, optionals and maps as inputs and outputs of the public API.
#include <gtest/gtest.h>

#include "graft/graft.h"
#include "support/text_network.h"

namespace {

using graft::Value;
using graft::ValueKind;

constexpr const char* kLists = R"text(graph "lists" {
  opset "" 28
  input %xs: "seq(f32[?, 2])"
  input %x: f32[n, 2]
  input %maybe: "optional(f32[2])"
  %longer: ? = SequenceInsert "append" (%xs, %x)
  %count: ? = SequenceLength "count" (%longer)
  %there: ? = OptionalHasElement "ask" (%maybe)
  output %longer
  output %count
  output %there
})text";

constexpr const char* kTexts = R"text(graph "texts" {
  opset "" 28
  input %x: str[n]
  constant %end: str[1] = {"!"}
  %loud: ? = StringConcat "shout" (%x, %end)
  %all: ? = Concat "join" (%x, %loud) {axis = 0}
  %same: ? = Equal "compare" (%loud, %x)
  output %all
  output %same
})text";

class Values : public testing::TestWithParam<const char*> {
 protected:
  graft::Engine compile(const char* text) {
    return graft::Engine(graft_test::compile_text(text, {{"threads", "1"}, {"mode", GetParam()}}));
  }
};

Value row(std::vector<float> data) {
  return Value::tensor(graft::view("", data.data(), {static_cast<int64_t>(data.size() / 2), 2}));
}

std::vector<float> floats(const Value& value) {
  const graft::TensorView view = value.tensor();
  const auto* data = static_cast<const float*>(view.data);
  return {data, data + view.shape[0] * view.shape[1]};
}

TEST_P(Values, of_sequences_go_in_and_come_out_and_grow_from_run_to_run) {
  const graft::Engine engine = compile(kLists);
  EXPECT_EQ(engine.inputs()[0].type, "seq(f32[?, 2])");
  EXPECT_EQ(engine.inputs()[1].type, "");
  EXPECT_EQ(engine.outputs()[0].type, "seq(f32[?, 2])");
  graft::Session session(engine);
  std::vector<float> data = {5, 6};
  const std::vector<Value> two = {row({1, 2}), row({3, 4, 3, 4})};
  Value sequence = Value::sequence(two);
  for (size_t run = 0; run < 3; ++run) {
    std::vector<graft::TensorView> outputs = {{.name = "longer"}, {.name = "count"}, {.name = "there"}};
    const graft::Status status = session.run({{.name = "xs", .value = sequence}, graft::view("x", data.data(), {1, 2}),
                                              {.name = "maybe", .value = Value::nothing()}}, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    sequence = outputs[0].value;
    ASSERT_EQ(sequence.kind(), ValueKind::kSequence);
    ASSERT_EQ(sequence.size(), 3 + run);
    EXPECT_EQ(floats(sequence[1]), (std::vector<float>{3, 4, 3, 4}));
    EXPECT_EQ(floats(sequence[2 + run]), (std::vector<float>{5, 6}));
    EXPECT_EQ(*static_cast<int64_t*>(outputs[1].data), static_cast<int64_t>(3 + run));
    EXPECT_FALSE(*static_cast<bool*>(outputs[2].data));
  }
}

TEST_P(Values, are_refused_where_a_tensor_is_given_or_none) {
  graft::Session session(compile(kLists));
  std::vector<float> data = {5, 6};
  const graft::TensorView x = graft::view("x", data.data(), {1, 2});
  const auto message = [&](const graft::TensorView& xs) {
    std::vector<graft::TensorView> outputs = {{.name = "count"}};
    return session.run({xs, x, {.name = "maybe", .value = Value::nothing()}}, outputs).message();
  };
  EXPECT_NE(message(graft::view("xs", data.data(), {1, 2})).find("it is seq(f32[?, 2]): give a graft_value"),
            std::string::npos);
  EXPECT_NE(message({.name = "xs", .value = Value::nothing()}).find("node 'append' (SequenceInsert)"),
            std::string::npos);
  EXPECT_EQ(message({.name = "xs", .value = Value::sequence({})}), "");
}

TEST_P(Values, of_strings_go_in_and_come_out) {
  const graft::Engine engine = compile(kTexts);
  EXPECT_EQ(engine.inputs()[0].dtype, graft::DataType::kString);
  graft::Session session(engine);
  for (const std::vector<std::string>& given :
       {std::vector<std::string>{"a", "", std::string("z\0z", 3)}, {"\xE2\x82\xAC"}, {}}) {
    std::vector<graft_text> texts;
    for (const std::string& text : given) texts.push_back({text.data(), text.size()});
    std::vector<graft::TensorView> outputs = {{.name = "all"}, {.name = "same"}};
    const graft::TensorView x{.name = "x", .dtype = graft::DataType::kString,
                              .shape = {static_cast<int64_t>(given.size())}, .data = texts.data()};
    const graft::Status status = session.run({x}, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(outputs[0].shape, (std::vector<int64_t>{static_cast<int64_t>(2 * given.size())}));
    const std::vector<std::string> all = Value::tensor(outputs[0]).texts();
    for (size_t i = 0; i < given.size(); ++i) {
      EXPECT_EQ(all[i], given[i]);
      EXPECT_EQ(all[given.size() + i], given[i] + "!");
      EXPECT_FALSE(static_cast<bool*>(outputs[1].data)[i]);
    }
  }
}

TEST_P(Values, of_strings_are_refused_as_what_they_are_not) {
  graft::Session session(compile(kTexts));
  std::vector<float> data = {5, 6};
  std::vector<graft::TensorView> outputs = {{.name = "same"}};
  EXPECT_NE(session.run({graft::view("x", data.data(), {2})}, outputs).message().find("its type is str"),
            std::string::npos);
  graft_text missing{nullptr, 3};
  const graft::TensorView x{.name = "x", .dtype = graft::DataType::kString, .shape = {1}, .data = &missing};
  EXPECT_NE(session.run({x}, outputs).message().find("string 0 is NULL"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(modes, Values, testing::Values("generated", "interpret"));

TEST(Value, of_a_map_has_keys_and_values) {
  std::vector<int64_t> keys = {7, 9};
  std::vector<float> scores = {0.5f, 2};
  const Value map = Value::map(graft::view("", keys.data(), {2}), graft::view("", scores.data(), {2}));
  EXPECT_EQ(map.kind(), ValueKind::kMap);
  EXPECT_EQ(static_cast<const int64_t*>(map[0].tensor().data)[1], 9);
  EXPECT_EQ(static_cast<const float*>(map[1].tensor().data)[1], 2);
  EXPECT_THROW(Value::map(graft::view("", scores.data(), {2}), graft::view("", scores.data(), {2})), graft::Error);
  EXPECT_THROW(map.tensor(), graft::Error);
}

}  // namespace
