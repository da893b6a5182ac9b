// SPDX-License-Identifier: Apache-2.0
// The public headers, used as a program would: only graft/ is included here.
#include "graft/graft.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

namespace {

/// Protocol-buffer fields by hand, so that the test needs no library: a length-delimited one, and a number.
std::string field(int number, const std::string& bytes) {
  std::string text(1, static_cast<char>(number << 3 | 2));
  size_t length = bytes.size();
  for (; length >= 128; length >>= 7) text += static_cast<char>(length | 128);
  return text + static_cast<char>(length) + bytes;
}
std::string field(int number, int value) { return {static_cast<char>(number << 3), static_cast<char>(value)}; }

/// `name`: f32[batch, 3]
std::string value(const std::string& name) {
  const std::string shape = field(1, field(2, std::string("batch"))) + field(1, field(1, 3));
  return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)));
}

/// y = a + b and z = a * b, over f32[batch, 3].
std::string model() {
  const auto node = [](const char* op, const char* output) {
    return field(1, std::string("a")) + field(1, std::string("b")) + field(2, std::string(output)) +
           field(3, std::string(op) + "_node") + field(4, std::string(op));
  };
  const std::string graph = field(1, node("Add", "y")) + field(1, node("Mul", "z")) + field(2, std::string("pair")) +
                            field(11, value("a")) + field(11, value("b")) + field(12, value("y")) +
                            field(12, value("z"));
  return field(1, 9) + field(7, graph) + field(8, field(2, 20));
}

class Api : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "graft-api-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ / "pair.onnx";
    std::FILE* file = std::fopen(path_.c_str(), "wb");
    const std::string bytes = model();
    std::fwrite(bytes.data(), 1, bytes.size(), file);
    std::fclose(file);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  graft::Engine engine() const { return graft::compile(path_, {.dims = {"batch=1:2:4"}, .threads = 1}); }

  std::filesystem::path folder_, path_;
  std::vector<float> a_ = {1, 2, 3, 4, 5, 6}, b_ = {10, 20, 30, 40, 50, 60};
  graft::TensorView a_view_ = graft::view("a", a_.data(), {2, 3}), b_view_ = graft::view("b", b_.data(), {2, 3});
};

TEST_F(Api, describes_what_an_engine_takes_and_gives) {
  const graft::Engine engine = this->engine();
  ASSERT_EQ(engine.inputs().size(), 2u);
  const graft::ValueInfo a = engine.inputs()[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, graft::DataType::kFloat32);
  ASSERT_EQ(a.axes.size(), 2u);
  EXPECT_EQ(a.axes[0].text, "batch");
  EXPECT_EQ(a.axes[0].size, -1);
  EXPECT_EQ(a.axes[0].max, 4);
  EXPECT_EQ(a.axes[1].size, 3);
  EXPECT_NE(engine.describe().find("\"Mul_node\""), std::string_view::npos);
}

TEST_F(Api, tells_output_shapes_before_a_run) {
  const graft::Engine engine = this->engine();
  graft::TensorView a{.dtype = graft::DataType::kFloat32, .shape = {3, 3}}, b = a;
  EXPECT_EQ(engine.output_shape(std::vector{a, b}, 1), (std::vector<int64_t>{3, 3}));
  const auto message = [&](const std::vector<graft::TensorView>& inputs, size_t output) -> std::string {
    try {
      engine.output_shape(inputs, output);
    } catch (const graft::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message({a, b}, 2).find("no output 2; the engine has 2"), std::string::npos);
  EXPECT_NE(message({a}, 0).find("input 'b'"), std::string::npos);
  b.shape = {5, 3};
  EXPECT_NE(message({b, b}, 0).find("batch = 5"), std::string::npos);
}

TEST_F(Api, loads_a_plan_from_memory) {
  const graft::Engine compiled = engine();
  const std::filesystem::path plan = folder_ / "pair.graft";
  compiled.save(plan);
  std::vector<std::byte> bytes(std::filesystem::file_size(plan));
  std::FILE* file = std::fopen(plan.c_str(), "rb");
  ASSERT_EQ(std::fread(bytes.data(), 1, bytes.size(), file), bytes.size());
  std::fclose(file);
  const graft::Engine loaded = graft::load(bytes);
  std::fill(bytes.begin(), bytes.end(), std::byte{0});  // they were copied
  graft::Session session(loaded);
  std::vector<float> y(6);
  graft::TensorView output = graft::view("y", y.data(), {2, 3});
  ASSERT_TRUE(session.run({a_view_, b_view_}, {&output, 1}).ok());
  EXPECT_EQ(y, (std::vector<float>{11, 22, 33, 44, 55, 66}));
  try {
    graft::load(bytes);
    FAIL() << "zeros were taken for a plan";
  } catch (const graft::Error& error) {
    EXPECT_EQ(error.kind(), graft::ErrorKind::kInvalidModel);
    EXPECT_NE(std::string(error.what()).find("the plan in memory"), std::string::npos);
  }
}

TEST_F(Api, checks_a_model_without_keeping_an_engine) {
  std::string answer;
  const auto take = [](void* context, const char* json) { *static_cast<std::string*>(context) = json; };
  graft_error error;
  ASSERT_EQ(graft_check(path_.c_str(), nullptr, 0, nullptr, 0, nullptr, &answer, take, &error), GRAFT_OK)
      << error.message;
  EXPECT_NE(answer.find(R"("nodes":2)"), std::string::npos) << answer;
  EXPECT_NE(answer.find(R"("obstacles":[])"), std::string::npos) << answer;
  const std::string bytes = model();
  ASSERT_EQ(graft_check(nullptr, bytes.data(), bytes.size(), nullptr, 0, nullptr, &answer, take, &error), GRAFT_OK);
  EXPECT_EQ(graft_check(nullptr, nullptr, 0, nullptr, 0, nullptr, &answer, take, &error), GRAFT_INVALID_ARGUMENT);
}

TEST_F(Api, writes_into_the_callers_strided_memory) {
  graft::Session session(engine());
  std::vector<float> y(12, -1);
  graft::TensorView output = graft::view("y", y.data(), {2, 3}, {6, 2});
  const graft::Status status = session.run({a_view_, b_view_}, {&output, 1});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(y, (std::vector<float>{11, -1, 22, -1, 33, -1, 44, -1, 55, -1, 66, -1}));
}

TEST_F(Api, reads_strided_inputs_in_place) {
  graft::Session session(engine());
  const std::vector<float> columns = {1, 4, 2, 5, 3, 6};
  std::vector<float> y(6);
  graft::TensorView output = graft::view("y", y.data(), {2, 3});
  const graft::Status status = session.run({graft::view("a", columns.data(), {2, 3}, {1, 2}), b_view_}, {&output, 1});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(y, (std::vector<float>{11, 22, 33, 44, 55, 66}));
}

TEST_F(Api, gives_outputs_memory_of_the_session) {
  graft::Session session(engine());
  std::vector<graft::TensorView> outputs(2);
  outputs[0].name = "z", outputs[1].name = "y";
  ASSERT_TRUE(session.run(std::vector{b_view_, a_view_}, outputs).ok());
  EXPECT_EQ(outputs[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(static_cast<float*>(outputs[0].data)[5], 360);
  EXPECT_EQ(static_cast<float*>(outputs[1].data)[0], 11);
}

TEST_F(Api, asks_the_callers_allocator) {
  graft::Session session(engine());
  std::vector<float> memory(6);
  graft::TensorView output{.name = "z"};
  size_t asked = 0;
  const auto allocate = [&](int position, graft::DataType, std::span<const int64_t>, size_t bytes) -> void* {
    EXPECT_EQ(position, 0);
    asked = bytes;
    return memory.data();
  };
  ASSERT_TRUE(session.run({a_view_, b_view_}, {&output, 1}, allocate).ok());
  EXPECT_EQ(asked, 24u);
  EXPECT_EQ(memory[1], 40);
  graft::TensorView again{.name = "z"};
  const auto refuse = [](int, graft::DataType, std::span<const int64_t>, size_t) -> void* { return nullptr; };
  EXPECT_EQ(session.run({a_view_, b_view_}, {&again, 1}, refuse).kind(), graft::ErrorKind::kOutOfMemory);
}

TEST_F(Api, names_what_is_wrong_with_a_run) {
  graft::Session session(engine());
  const auto message = [&](std::initializer_list<graft::TensorView> inputs) {
    graft::TensorView output{.name = "y"};
    const graft::Status status = session.run(inputs, {&output, 1});
    EXPECT_EQ(status.kind(), graft::ErrorKind::kInvalidArgument);
    return status.message();
  };
  std::vector<double> wide(6);
  EXPECT_NE(message({a_view_}).find("'b'"), std::string::npos);
  EXPECT_NE(message({a_view_, a_view_}).find("twice"), std::string::npos);
  EXPECT_NE(message({a_view_, graft::view("c", b_.data(), {2, 3})}).find("'c'"), std::string::npos);
  EXPECT_NE(message({a_view_, graft::view("b", wide.data(), {2, 3})}).find("f64"), std::string::npos);
  EXPECT_NE(message({a_view_, graft::view("b", b_.data(), {3, 2})}).find("axis"), std::string::npos);
  EXPECT_NE(message({a_view_, graft::view("b", static_cast<float*>(nullptr), {2, 3})}).find("NULL"), std::string::npos);
  EXPECT_NE(message({graft::view("a", wide.data(), {-1, 3}), b_view_}).find("'a'"), std::string::npos);
}

TEST_F(Api, saves_and_loads_without_compiling_again) {
  const std::string plan = folder_ / "pair.graft";
  engine().save(plan);
  const uint64_t compilations = graft_compilation_count();
  graft::Session session(graft::load(plan));
  std::vector<float> y(6);
  graft::TensorView output = graft::view("y", y.data(), {2, 3});
  ASSERT_TRUE(session.run({a_view_, b_view_}, {&output, 1}).ok());
  EXPECT_EQ(y[5], 66);
  EXPECT_EQ(graft_compilation_count(), compilations);
}

TEST_F(Api, throws_errors_with_a_kind) {
  const auto kind_of = [](const auto& body) {
    try {
      body();
    } catch (const graft::Error& error) {
      EXPECT_STRNE(error.what(), "");
      return error.kind();
    }
    return graft::ErrorKind::kNone;
  };
  EXPECT_EQ(kind_of([&] { graft::compile(folder_ / "absent.onnx"); }), graft::ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind_of([&] { graft::compile(path_, {.dims = {"height=2"}}); }), graft::ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind_of([&] { graft::compile(path_, {.extra = {{"speed", "9"}}}); }), graft::ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind_of([&] { graft::load(path_); }), graft::ErrorKind::kInvalidModel);
  EXPECT_EQ(kind_of([&] { engine().save(folder_ / "absent" / "x.graft"); }), graft::ErrorKind::kInvalidArgument);
}

TEST_F(Api, stops_when_progress_says_so) {
  graft::CompileOptions options;
  options.progress = [](std::string_view stage, std::string_view, int, int) { return stage != "passes"; };
  try {
    graft::compile(path_, options);
    FAIL() << "it went on";
  } catch (const graft::Error& error) {
    EXPECT_EQ(error.kind(), graft::ErrorKind::kCancelled);
  }
}

TEST_F(Api, runs_sessions_of_one_engine_at_the_same_time) {
  const graft::Engine engine = this->engine();
  std::vector<std::thread> threads;
  std::vector<int> failures(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      graft::Session session(engine);
      for (int i = 0; i < 50; ++i) {
        std::vector<float> x(3 * (1 + i % 4), static_cast<float>(t)), y(x.size());
        const std::vector<int64_t> shape = {static_cast<int64_t>(x.size() / 3), 3};
        graft::TensorView output = graft::view("y", y.data(), shape);
        const graft::Status status =
            session.run({graft::view("a", x.data(), shape), graft::view("b", x.data(), shape)}, {&output, 1});
        failures[t] += !status.ok() || y.back() != static_cast<float>(2 * t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<int>(4));
}

TEST_F(Api, sends_messages_to_the_callers_function) {
  std::vector<std::string> messages;
  graft::set_log([&](graft::LogLevel, std::string_view message) { messages.emplace_back(message); },
                 graft::LogLevel::kStep);
  engine();
  graft::set_log({});
  EXPECT_FALSE(messages.empty());
}

}  // namespace
