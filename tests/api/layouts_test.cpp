// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs of every layout, size and alignment, on three machines and in the interpreter: each run is
// compared bit for bit with one on row-major, aligned memory.
#include <gtest/gtest.h>

#include <map>

#include "api/buffers.h"
#include "support/text_network.h"

namespace {

using graft::DataType;
using graft_test::Buffer;
using graft_test::Bytes;
using graft_test::kLayouts;
using graft_test::Layout;
using graft_test::Shape;

/// What the caller hands in.
struct Given {
  const char* name;
  DataType type;
  Shape shape;
};

struct Network {
  const char* name;
  const char* text;
  std::vector<std::vector<Given>> runs;
};

constexpr const char* kTypes = R"(graph "types" {
  opset "" 28
  range rows 0 4 64
  input %f: f32[rows, 5]
  input %d: f64[rows, 5]
  input %h: f16[rows, 5]
  input %i: i64[5]
  input %b: bool[rows, 5]
  input %s: f32[]
  %fs: ? = Mul "scaled" (%f, %s)
  %chosen: ? = Where "chosen" (%b, %fs, %f)
  %dd: ? = Mul "doubled" (%d, %d)
  %hh: ? = Add "halves" (%h, %h)
  %ii: ? = Add "integers" (%i, %i)
  %bb: ? = Not "inverted" (%b)
  %sum: ? = ReduceSum "sum" (%fs) {keepdims = 0}
  output %chosen
  output %dd
  output %hh
  output %ii
  output %bb
  output %sum
})";

constexpr const char* kGather = R"(graph "gather" {
  opset "" 28
  range rows 1 4 64
  range picks 0 4 64
  input %table: f32[rows, 17]
  input %index: i64[picks, 2]
  %taken: ? = Gather "take" (%table, %index) {axis = 0}
  %y: ? = Softmax "softmax" (%taken) {axis = -1}
  output %y
})";

/// Sizes that are elements of inputs: read before the run, and by a step.
constexpr const char* kTile = R"(graph "tile" {
  opset "" 28
  input %x: f32[2, 3]
  input %times: i64[2]
  %tiled: ? = Tile "tile" (%x, %times)
  %y: ? = Exp "exponential" (%tiled)
  output %y
})";

constexpr const char* kTileTwice = R"(graph "tile twice" {
  opset "" 28
  input %x: f32[2, 3]
  input %times: i64[2, 1]
  constant %flat: i64[1] = {-1}
  %repeats: ? = Reshape "flatten" (%times, %flat)
  %tiled: ? = Tile "tile" (%x, %repeats)
  %y: ? = Exp "exponential" (%tiled)
  output %y
})";

std::vector<Given> types(int64_t rows) {
  return {{"f", DataType::kFloat32, {rows, 5}}, {"d", DataType::kFloat64, {rows, 5}},
          {"h", DataType::kFloat16, {rows, 5}}, {"i", DataType::kInt64, {5}},
          {"b", DataType::kBool, {rows, 5}},    {"s", DataType::kFloat32, {}}};
}

std::vector<Given> gather(int64_t picks) {
  return {{"table", DataType::kFloat32, {5, 17}}, {"index", DataType::kInt64, {picks, 2}}};
}

std::vector<Given> x(Shape shape) { return {{"x", DataType::kFloat32, std::move(shape)}}; }

const Network kNetworks[] = {
    {"mlp", graft_test::kMlp, {x({1, 48}), x({5, 48})}},
    {"convolutions", graft_test::kConvolutions, {x({1, 3, 12, 12}), x({2, 3, 12, 12})}},
    {"attention", graft_test::kAttention, {x({1, 1, 32}), x({2, 13, 32})}},
    {"positives", graft_test::kPositives, {x({0}), x({37})}},
    {"types", kTypes, {types(0), types(1), types(6)}},
    {"gather", kGather, {gather(0), gather(3)}},
    {"tile", kTile, {{{"x", DataType::kFloat32, {2, 3}}, {"times", DataType::kInt64, {2}}}}},
    {"tile_twice", kTileTwice, {{{"x", DataType::kFloat32, {2, 3}}, {"times", DataType::kInt64, {2, 1}}}}},
};

using Results = std::vector<std::pair<std::string, Bytes>>;

/// Where inputs and outputs lie; null outputs get memory of the session.
struct Places {
  const Layout* inputs;
  const Layout* outputs;
};

class Layouts : public testing::TestWithParam<std::tuple<int, const char*>> {
 protected:
  const Network& network() const { return kNetworks[std::get<0>(GetParam())]; }
  graft::Engine engine() const {
    const std::string target = std::get<1>(GetParam());
    const bool interpret = target == "interpret";
    return graft::Engine(graft_test::compile_text(network().text, {{"threads", "2"},
                                                                   {"mode", interpret ? "interpret" : "generated"},
                                                                   {"target", interpret ? "native" : target.c_str()}}));
  }
};

/// Memory of the session's, as row-major bytes with its type and shape.
std::vector<graft::TensorView> outputs_of(const graft::Engine& engine) {
  std::vector<graft::TensorView> outputs;
  for (const graft::ValueInfo& info : engine.outputs()) outputs.push_back({.name = info.name});
  return outputs;
}

Bytes dense_bytes(const graft::TensorView& view) {
  const auto* data = static_cast<const std::byte*>(view.data);
  return {data, data + graft_test::count_of(view.shape) * graft_test::bytes_of(view.dtype)};
}

/// Runs with buffers of these layouts, and checks that nothing but elements of outputs is written.
Results run(graft::Session& session, const graft::Engine& engine, const std::vector<Given>& given, Places places,
            std::vector<graft::TensorView> known = {}) {
  std::vector<Buffer> inputs, outputs;
  std::vector<graft::TensorView> input_views, output_views = outputs_of(engine);
  inputs.reserve(given.size());
  outputs.reserve(known.size());
  for (const Given& g : given) {
    inputs.emplace_back(g.type, g.shape, *places.inputs, graft_test::random_values(g.type, g.shape, 3));
    input_views.push_back(inputs.back().view(g.name));
  }
  for (size_t i = 0; i < known.size(); ++i) {
    outputs.emplace_back(known[i].dtype, known[i].shape, *places.outputs);
    output_views[i] = outputs.back().view(known[i].name);
  }
  const graft::Status status = session.run(input_views, output_views);
  EXPECT_TRUE(status.ok()) << status.message();
  Results results;
  for (size_t i = 0; i < output_views.size(); ++i) {
    if (!status.ok()) continue;
    results.emplace_back(output_views[i].name, known.empty() ? dense_bytes(output_views[i]) : outputs[i].values());
  }
  for (const Buffer& buffer : inputs) EXPECT_TRUE(buffer.is_intact());
  for (const Buffer& buffer : outputs) EXPECT_TRUE(buffer.is_intact());
  for (size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(inputs[i].values(), graft_test::random_values(given[i].type, given[i].shape, 3)) << given[i].name;
  }
  return results;
}

/// Types and shapes of the outputs of a run, which the buffers of the next are made for.
std::vector<graft::TensorView> known_outputs(const graft::Engine& engine, const std::vector<Given>& given) {
  graft::Session session(engine);
  std::vector<Bytes> values;
  std::vector<graft::TensorView> inputs, outputs = outputs_of(engine);
  for (const Given& g : given) {
    values.push_back(graft_test::random_values(g.type, g.shape, 3));
    inputs.push_back({g.name, g.type, g.shape, {}, values.back().data()});
  }
  const graft::Status status = session.run(inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  for (graft::TensorView& output : outputs) output.data = nullptr;
  return outputs;
}

TEST_P(Layouts, agree_with_row_major_memory) {
  const graft::Engine engine = this->engine();
  graft::Session session(engine);
  for (const std::vector<Given>& given : network().runs) {
    const std::vector<graft::TensorView> known = known_outputs(engine, given);
    const Results expected = run(session, engine, given, {&kLayouts[0], &kLayouts[0]}, known);
    for (const Layout& layout : kLayouts) {
      SCOPED_TRACE(layout.name);
      EXPECT_EQ(run(session, engine, given, {&layout, nullptr}), expected);
      EXPECT_EQ(run(session, engine, given, {&kLayouts[0], &layout}, known), expected);
      EXPECT_EQ(run(session, engine, given, {&layout, &layout}, known), expected);
    }
  }
}

TEST_P(Layouts, read_repeated_elements_of_stride_0) {
  const graft::Engine engine = this->engine();
  graft::Session session(engine);
  for (const std::vector<Given>& given : network().runs) {
    std::vector<Bytes> whole, repeated;
    std::vector<graft::TensorView> whole_views, repeated_views;
    for (const Given& g : given) {
      // One row for all of the first axis: by stride 0 here, row by row there.
      Shape row = g.shape, strides(row.size());
      if (!row.empty()) row[0] = 1;
      int64_t stride = 1;
      for (size_t axis = row.size(); axis-- > 0; stride *= row[axis]) strides[axis] = axis ? stride : 0;
      repeated.push_back(graft_test::random_values(g.type, row, 3));
      whole.emplace_back();
      for (int64_t i = 0; i < (g.shape.empty() ? 1 : g.shape[0]); ++i) {
        whole.back().insert(whole.back().end(), repeated.back().begin(), repeated.back().end());
      }
      repeated_views.push_back({g.name, g.type, g.shape, strides, repeated.back().data()});
      whole_views.push_back({g.name, g.type, g.shape, {}, whole.back().data()});
    }
    std::vector<graft::TensorView> expected = outputs_of(engine), actual = outputs_of(engine);
    ASSERT_TRUE(session.run(whole_views, expected).ok());
    std::vector<Bytes> bytes;
    for (const graft::TensorView& output : expected) bytes.push_back(dense_bytes(output));
    ASSERT_TRUE(session.run(repeated_views, actual).ok());
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_EQ(dense_bytes(actual[i]), bytes[i]) << actual[i].name;
  }
}

std::string test_name(const testing::TestParamInfo<std::tuple<int, const char*>>& info) {
  std::string name = std::string(kNetworks[std::get<0>(info.param)].name) + "_on_" + std::get<1>(info.param);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Api, Layouts,
                         testing::Combine(testing::Range(0, static_cast<int>(std::size(kNetworks))),
                                          testing::Values("native", "x86-64-v3", "portable", "interpret")),
                         test_name);

TEST(EmptyAndRankless, have_the_values_that_the_operators_say) {
  for (const char* mode : {"generated", "interpret"}) {
    const graft::Engine engine(graft_test::compile_text(R"(graph "sums" {
      opset "" 28
      range rows 0 4 8
      input %x: f32[rows, 3]
      input %s: f32[]
      %sum: ? = ReduceSum "sum" (%x) {keepdims = 0}
      %y: ? = Add "rows" (%x, %s)
      %z: ? = Add "rankless" (%s, %s)
      output %sum
      output %y
      output %z
    })", {{"mode", mode}}));
    graft::Session session(engine);
    float s = 2.5f;
    std::vector<graft::TensorView> outputs(3);
    const graft::Status status =
        session.run({graft::view("x", static_cast<float*>(nullptr), {0, 3}), graft::view("s", &s, {})}, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(outputs[0].shape, Shape{});
    EXPECT_EQ(*static_cast<float*>(outputs[0].data), 0);
    EXPECT_EQ(outputs[1].shape, (Shape{0, 3}));
    EXPECT_EQ(outputs[2].shape, Shape{});
    EXPECT_EQ(*static_cast<float*>(outputs[2].data), 5);
  }
}

}  // namespace
