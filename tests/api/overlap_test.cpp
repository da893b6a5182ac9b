// SPDX-License-Identifier: Apache-2.0
// Buffers that share memory: results are as if they did not, or an error says which may not.
#include <gtest/gtest.h>

#include "api/buffers.h"
#include "support/text_network.h"

namespace {

using Floats = std::vector<float>;
using graft_test::Shape;

/// y reads x before and after z is written; `same` is x itself.
constexpr const char* kChain = R"(graph "chain" {
  opset "" 28
  range count 0 8 1024
  input %x: f32[count]
  constant %axis: i64[] = {0}
  %r: ? = Softmax "softmax" (%x)
  %z: ? = CumSum "sums" (%r, %axis)
  %y: ? = Add "again" (%z, %x)
  output %y
  output %z
  output %x
})";

/// Twice as long as x.
constexpr const char* kDouble = R"(graph "double" {
  opset "" 28
  range count 1 8 4096
  input %x: f32[count]
  %more: ? = Mul "square" (%x, %x)
  %y: ? = Concat "both" (%x, %more) {axis = 0}
  output %y
})";

class Overlap : public testing::TestWithParam<const char*> {
 protected:
  graft::Engine engine(const char* text) const {
    return graft::Engine(graft_test::compile_text(text, {{"mode", GetParam()}, {"threads", "2"}}));
  }
};

Floats values(size_t count) {
  graft::Random random(11);
  Floats x(count);
  for (float& value : x) value = static_cast<float>(random.uniform(-2, 2));
  return x;
}

/// What the outputs are when each has memory of its own.
std::vector<Floats> expected_of(const graft::Engine& engine, const Floats& x, const Shape& shape) {
  graft::Session session(engine);
  std::vector<graft::TensorView> outputs(engine.outputs().size());
  const graft::Status status = session.run({graft::view("x", x.data(), shape)}, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<Floats> results;
  for (const graft::TensorView& output : outputs) {
    const auto* data = static_cast<const float*>(output.data);
    results.emplace_back(data, data + graft_test::count_of(output.shape));
  }
  return results;
}

std::string message_of(const graft::Status& status) {
  EXPECT_EQ(status.kind(), graft::ErrorKind::kInvalidArgument);
  return status.message();
}

TEST_P(Overlap, an_output_may_be_written_over_an_input) {
  const std::pair<const char*, Shape> networks[] = {{kChain, {100}}, {graft_test::kAttention, {2, 9, 32}}};
  for (const auto& [text, shape] : networks) {
    const graft::Engine engine = this->engine(text);
    const size_t count = graft_test::count_of(shape);
    const Floats x = values(count), expected = expected_of(engine, x, shape)[0];
    graft::Session session(engine);
    // The output starts this many elements behind the input's first: at, before and behind it, and next to it.
    for (const int64_t shift : {0, 1, -1, 7, -7, 40, static_cast<int>(count)}) {
      Floats memory(3 * count);
      const auto middle = memory.begin() + static_cast<int64_t>(count);
      std::copy(x.begin(), x.end(), middle);
      graft::TensorView y = graft::view("y", &*middle + shift, shape);
      const graft::Status status = session.run({graft::view("x", &*middle, shape)}, {&y, 1});
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(Floats(middle + shift, middle + shift + static_cast<int64_t>(count)), expected) << "shift " << shift;
    }
  }
}

TEST_P(Overlap, an_output_that_is_an_input_sees_it_unchanged) {
  const graft::Engine engine = this->engine(kChain);
  const Floats x = values(50);
  const std::vector<Floats> expected = expected_of(engine, x, {50});
  graft::Session session(engine);
  Floats memory = x, z(50), same(50);
  std::vector<graft::TensorView> outputs = {graft::view("y", memory.data(), {50}), graft::view("z", z.data(), {50}),
                                            graft::view("x", same.data(), {50})};
  ASSERT_TRUE(session.run({graft::view("x", memory.data(), {50})}, outputs).ok());
  EXPECT_EQ(memory, expected[0]);
  EXPECT_EQ(z, expected[1]);
  EXPECT_EQ(same, x);
  // And the other way round: x is written over itself.
  memory = x;
  outputs = {graft::view("y", same.data(), {50}), graft::view("z", z.data(), {50}),
             graft::view("x", memory.data(), {50})};
  ASSERT_TRUE(session.run({graft::view("x", memory.data(), {50})}, outputs).ok());
  EXPECT_EQ(memory, x);
  EXPECT_EQ(same, expected[0]);
}

TEST_P(Overlap, strided_outputs_may_be_written_over_an_input) {
  const graft::Engine engine = this->engine(kChain);
  const Floats x = values(50);
  const std::vector<Floats> expected = expected_of(engine, x, {50});
  graft::Session session(engine);
  Floats memory(200);
  std::copy(x.begin(), x.end(), memory.begin());
  // Even elements are y, odd ones are z, and x lies below both.
  std::vector<graft::TensorView> outputs = {graft::view("y", memory.data(), {50}, {2}),
                                            graft::view("z", memory.data() + 1, {50}, {2})};
  ASSERT_TRUE(session.run({graft::view("x", memory.data(), {50})}, outputs).ok());
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(memory[2 * i], expected[0][i]);
    EXPECT_EQ(memory[2 * i + 1], expected[1][i]);
  }
}

TEST_P(Overlap, outputs_of_computed_sizes_may_be_written_over_an_input) {
  const graft::Engine engine = this->engine(graft_test::kPositives);
  Floats x = values(64);
  graft::Session session(engine);
  std::vector<graft::TensorView> apart = {{.name = "values"}};
  ASSERT_TRUE(session.run({graft::view("x", x.data(), {64})}, apart).ok());
  const auto* data = static_cast<const float*>(apart[0].data);
  const Floats expected(data, data + graft_test::count_of(apart[0].shape));
  graft::TensorView over = graft::view("values", x.data() + 3, apart[0].shape);
  const graft::Status status = session.run({graft::view("x", x.data(), {64})}, {&over, 1});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(Floats(x.begin() + 3, x.begin() + 3 + static_cast<int64_t>(expected.size())), expected);
}

TEST_P(Overlap, inputs_may_share_memory) {
  const graft::Engine engine = this->engine(R"(graph "sum" {
    opset "" 28
    input %a: f32[30]
    input %b: f32[30]
    %y: ? = Sub "difference" (%a, %b)
    output %y
  })");
  graft::Session session(engine);
  const Floats x = values(31);
  Floats y(30);
  graft::TensorView output = graft::view("y", y.data(), {30});
  ASSERT_TRUE(session.run({graft::view("a", x.data() + 1, {30}), graft::view("b", x.data(), {30})}, {&output, 1}).ok());
  for (size_t i = 0; i < 30; ++i) EXPECT_EQ(y[i], x[i + 1] - x[i]);
}

TEST_P(Overlap, memory_of_the_session_may_be_the_next_input) {
  const graft::Engine engine = this->engine(kDouble);
  graft::Session session(engine);
  Floats expected = {0.5f, -0.75f};
  graft::TensorView x = graft::view("x", expected.data(), {2});
  Floats first = expected;
  x.data = first.data();
  for (int i = 0; i < 9; ++i) {
    const size_t count = expected.size();
    for (size_t e = 0; e < count; ++e) expected.push_back(expected[e] * expected[e]);
    graft::TensorView y{.name = "y"};
    const graft::Status status = session.run({x}, {&y, 1});
    ASSERT_TRUE(status.ok()) << status.message();
    const auto* data = static_cast<const float*>(y.data);
    ASSERT_EQ(Floats(data, data + graft_test::count_of(y.shape)), expected) << "turn " << i;
    x = y;
    x.name = "x";
  }
}

TEST_P(Overlap, outputs_that_share_memory_are_refused) {
  const graft::Engine engine = this->engine(kChain);
  graft::Session session(engine);
  const Floats x = values(50);
  Floats memory(99);
  std::vector<graft::TensorView> outputs = {graft::view("y", memory.data(), {50}),
                                            graft::view("z", memory.data() + 49, {50})};
  const std::string message = message_of(session.run({graft::view("x", x.data(), {50})}, outputs));
  EXPECT_NE(message.find("'y'"), std::string::npos) << message;
  EXPECT_NE(message.find("'z'"), std::string::npos) << message;
  outputs[1].data = nullptr;
  const auto same = [&](int, graft::DataType, std::span<const int64_t>, size_t) -> void* { return memory.data(); };
  message_of(session.run({graft::view("x", x.data(), {50})}, outputs, same));
}

TEST_P(Overlap, an_output_of_stride_0_is_refused) {
  const graft::Engine engine = this->engine(kChain);
  graft::Session session(engine);
  const Floats x = values(50);
  Floats memory(50);
  graft::TensorView y = graft::view("y", memory.data(), {50}, {0});
  const std::string message = message_of(session.run({graft::view("x", x.data(), {50})}, {&y, 1}));
  EXPECT_NE(message.find("output 'y'"), std::string::npos) << message;
  EXPECT_NE(message.find("axis 0"), std::string::npos) << message;
  y = graft::view("y", memory.data(), {1}, {0});
  EXPECT_TRUE(session.run({graft::view("x", x.data(), {1})}, {&y, 1}).ok());
}

INSTANTIATE_TEST_SUITE_P(Api, Overlap, testing::Values("generated", "interpret"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
