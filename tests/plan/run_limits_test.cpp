// SPDX-License-Identifier: Apache-2.0
// What a run may take: sizes that no machine has, a session's memory limit, deadlines and cancelling.
#include <chrono>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/run_limits.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "expr/build.h"
#include "expr/interpreter.h"
#include "plan/sample_plan.h"

namespace graft {
namespace {

using Clock = std::chrono::steady_clock;

std::shared_ptr<const LoadedEngine> engine_of(const std::string& text, int threads = 2, bool interpret = false) {
  CompileOptions options;
  options.threads = threads;
  options.tuning = Tuning::kOff;
  options.interpret = interpret;
  return load(compile_from(parse_graph(text), Stage::kImport, options).engine);
}

/// The sum of an element of x, repeated `count` times: much work on little memory.
std::string long_sum(const std::string& count) {
  return R"(graph "sum" {
  opset "" 28
  input %x: f32[1]
  constant %shape: i64[1] = {)" +
         count + R"(}
  constant %axes: i64[1] = {0}
  %many: ? = Expand "expand" (%x, %shape)
  %y: ? = ReduceSum "sum" (%many, %axes) {keepdims = 1}
  output %y
}
)";
}

Status run_sum(Session& session, float& y) {
  float x = 1;
  const BufferView inputs[] = {{&x, DType::kFloat32, {1}, {}}};
  BufferView outputs[] = {{&y, DType::kFloat32, {1}, {}}};
  return session.run(inputs, outputs);
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

TEST(CheckedSize, refuses_what_wraps_or_is_more_than_machines_have) {
  EXPECT_EQ(checked_product(int64_t{1} << 40, 16, "x"), kMostBytes);
  EXPECT_EQ(checked_sum(kMostBytes - 1, 1, "x"), kMostBytes);
  EXPECT_EQ(checked_aligned(65, 64, "x"), 128);
  const std::function<int64_t()> wrong[] = {
      [] { return checked_product(int64_t{1} << 58, 64, "scratch"); },
      [] { return checked_product(int64_t{1} << 40, 17, "scratch"); },
      [] { return checked_product(-1, 8, "scratch"); },
      [] { return checked_sum(INT64_MAX, 1, "scratch"); },
      [] { return checked_bytes(kMostBytes + 1, "scratch"); },
      [] { return checked_aligned(INT64_MAX, 64, "scratch"); },
  };
  for (const auto& size : wrong) {
    try {
      ADD_FAILURE() << size();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
      EXPECT_NE(std::string(error.what()).find("scratch would take"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(std::to_string(kMostBytes)), std::string::npos) << error.what();
    }
  }
}

/// Scratch for a row, times threads, is 2^64 bytes and more: it may not wrap into a little.
TEST(RunLimits, scratch_of_all_threads_is_no_small_number_when_it_wraps) {
  const auto engine = engine_of(R"(graph "rank" {
  opset "" 28
  input %x: f32[n]
  input %shape: i64[1]
  constant %k: i64[1] = {1}
  %many: ? = Expand "expand" (%x, %shape)
  %y: ?, %i: ? = TopK "rank" (%many, %k) {axis = 0, largest = 1}
  output %y
  output %i
}
)", 64);
  Session session(engine, 64);
  float x = 1, y = 0;
  int64_t i = 0;
  for (const int bits : {53, 54, 55, 56, 57, 58, 60}) {
    int64_t extent = int64_t{1} << bits;
    const BufferView inputs[] = {{&x, DType::kFloat32, {1}, {}}, {&extent, DType::kInt64, {1}, {}}};
    BufferView outputs[] = {{&y, DType::kFloat32, {1}, {}}, {&i, DType::kInt64, {1}, {}}};
    const Status status = session.run(inputs, outputs);
    EXPECT_EQ(status.kind(), ErrorKind::kOutOfMemory) << bits << ": " << status.message();
    EXPECT_NE(status.message().find("bytes"), std::string::npos) << status.message();
  }
}

TEST(RunLimits, a_row_of_the_interpreters_sort_has_room_for_all_its_elements) {
  const Size length = Size((int64_t{1} << 31) + 10);
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {Size(1)});
  const auto key = [&](const Indices&, const Expr&) { return x({make_size(0)}); };
  const auto sorted = b.sort("y", {}, length, Size(1), false, key);
  const Region region = b.finish("sort", {sorted[0]});
  const auto budget = std::make_shared<MemoryBudget>();
  budget->set_limit(int64_t{1} << 30);
  const LimitScope limits(budget, nullptr);
  Bindings bindings;
  const TensorData one = TensorData::from_values<float>(DType::kFloat32, {1}, {1});
  try {
    interpret(region, std::vector<TensorData>{one}, bindings);
    FAIL() << "it took no more than the limit";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory) << error.what();
    EXPECT_NE(std::string(error.what()).find(std::to_string(8 * ((int64_t{1} << 31) + 10))), std::string::npos)
        << error.what();
  }
}

TEST(RunLimits, an_interpreted_step_stays_within_the_sessions_memory) {
  const auto engine = engine_of(R"(graph "twice" {
  opset "" 28
  input %x: f32[n]
  %y: f32[n] = Add "add" (%x, %x)
  output %y
}
)", 1, true);
  Session session(engine);
  std::vector<float> x(100'000, 1), y(x.size());
  const BufferView inputs[] = {{x.data(), DType::kFloat32, {100'000}, {}}};
  BufferView outputs[] = {{y.data(), DType::kFloat32, {100'000}, {}}};
  session.set_memory_limit(300'000);
  const Status status = session.run(inputs, outputs);
  EXPECT_EQ(status.kind(), ErrorKind::kOutOfMemory);
  EXPECT_NE(status.message().find("node 'add'"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("may have 300000"), std::string::npos) << status.message();
  session.set_memory_limit(0);
  const Status again = session.run(inputs, outputs);
  EXPECT_TRUE(again.ok()) << again.message();
  EXPECT_EQ(y[99'999], 2);
}

TEST(RunLimits, outputs_that_the_session_gives_count) {
  if (!why_no_sample_kernels().empty()) GTEST_SKIP() << why_no_sample_kernels();
  const auto engine = engine_of(R"(graph "twice" {
  opset "" 28
  input %x: f32[n]
  %y: f32[n] = Add "add" (%x, %x)
  output %y
}
)");
  Session session(engine);
  std::vector<float> x(1000, 1);
  const BufferView inputs[] = {{x.data(), DType::kFloat32, {1000}, {}}};
  BufferView outputs[] = {{nullptr, DType::kFloat32, {}, {}}};
  const auto give = [](void* of, int output, DType, std::span<const int64_t>, size_t bytes) {
    return static_cast<Session*>(of)->give_output(output, bytes);
  };
  session.set_memory_limit(2000);
  const Status status = session.run(inputs, outputs, give, &session);
  EXPECT_EQ(status.kind(), ErrorKind::kOutOfMemory);
  EXPECT_NE(status.message().find("the output y"), std::string::npos) << status.message();
  session.set_memory_limit(6000);
  outputs[0] = {nullptr, DType::kFloat32, {}, {}};
  ASSERT_TRUE(session.run(inputs, outputs, give, &session).ok());
  EXPECT_EQ(static_cast<float*>(outputs[0].data)[999], 2);
}

/// What is summed is in no tensor, and wraps to nothing at 64.
TEST(RunLimits, a_sum_of_more_elements_than_can_be_counted_is_refused) {
  for (const bool interpret : {false, true}) {
    std::string sizes;
    for (int axis = 0; axis < 12; ++axis) sizes += axis ? ", %s" : "%s";
    Session session(engine_of("graph \"powers\" {\n  opset \"\" 28\n  input %x: f32[n]\n  input %one: f32[1]\n"
                              "  %s: ? = Shape \"shape\" (%x)\n  %c: ? = Concat \"sizes\" (" + sizes +
                              ") {axis = 0}\n  %e: ? = Expand \"expand\" (%one, %c)\n"
                              "  %y: ? = ReduceSum \"sum\" (%e) {keepdims = 0}\n  output %y\n}\n", 1, interpret));
    for (const int64_t n : {2, 64, 3000}) {
      std::vector<float> x(static_cast<size_t>(n));
      float one = 1, y = 0;
      const BufferView inputs[] = {{x.data(), DType::kFloat32, {n}, {}}, {&one, DType::kFloat32, {1}, {}}};
      BufferView outputs[] = {{&y, DType::kFloat32, {}, {}}};
      const Status status = session.run(inputs, outputs);
      EXPECT_EQ(status.ok(), n == 2) << n << " " << status.message();
      EXPECT_TRUE(n == 2 || status.message().find("node 'sum'") != std::string::npos) << status.message();
    }
  }
}

/// One grid point that takes hours, on one thread and on more.
TEST(RunLimits, a_run_that_is_cancelled_ends_soon_and_the_session_stays_usable) {
  if (!why_no_sample_kernels().empty()) GTEST_SKIP() << why_no_sample_kernels();
  for (const int threads : {1, 2}) {
    Session session(engine_of(long_sum("1099511627776"), threads));
    for (int round = 0; round < 2; ++round) {
      float y = 0;
      Status status;
      std::thread runner([&] { status = run_sum(session, y); });
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const auto start = Clock::now();
      session.cancel();
      runner.join();
      EXPECT_LT(seconds_since(start), 5) << threads;
      EXPECT_EQ(status.kind(), ErrorKind::kCancelled) << status.message();
      EXPECT_NE(status.message().find("cancelled by the caller"), std::string::npos) << status.message();
    }
  }
}

/// Many grid points and little memory; the interpreter takes minutes, kernels half a minute.
TEST(RunLimits, a_deadline_ends_a_run_between_the_pieces_of_a_grid) {
  for (const bool interpret : {false, true}) {
    Session session(engine_of(R"(graph "product" {
  opset "" 28
  input %x: f32[n, n]
  %y: ? = MatMul "product" (%x, %x)
  output %y
}
)", 1, interpret));
    const int64_t n = 10'000;
    std::vector<float> x(static_cast<size_t>(n * n)), y(x.size());
    const BufferView inputs[] = {{x.data(), DType::kFloat32, {n, n}, {}}};
    BufferView outputs[] = {{y.data(), DType::kFloat32, {n, n}, {}}};
    session.set_deadline(0.2);
    const auto start = Clock::now();
    const Status status = session.run(inputs, outputs);
    EXPECT_LT(seconds_since(start), 5) << interpret;
    EXPECT_EQ(status.kind(), ErrorKind::kCancelled) << status.message();
  }
}

TEST(RunLimits, a_deadline_ends_a_run_and_no_later_one) {
  if (!why_no_sample_kernels().empty()) GTEST_SKIP() << why_no_sample_kernels();
  Session session(engine_of(long_sum("1099511627776")));
  float y = 0;
  session.set_deadline(0.1);
  const auto start = Clock::now();
  const Status status = run_sum(session, y);
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_EQ(status.kind(), ErrorKind::kCancelled);
  EXPECT_NE(status.message().find("deadline"), std::string::npos) << status.message();
  Session quick(engine_of(long_sum("1000")));
  quick.set_deadline(0.05);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(run_sum(quick, y).ok());
    EXPECT_EQ(y, 1000);
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }
}

TEST(RunLimits, cancelling_between_runs_does_nothing) {
  Session session(engine_of(long_sum("1000")));
  float y = 0;
  session.cancel();
  const Status status = run_sum(session, y);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(y, 1000);
}

/// Loops that can be left compute what those do that cannot.
TEST(RunLimits, a_long_loop_computes_the_whole_sum) {
  Session session(engine_of(long_sum("33554432")));
  float y = 0;
  const Status status = run_sum(session, y);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_GT(y, 1e7f);  // f32 sums of ones in several lanes: exact up to 2^24 each
}

}  // namespace
}  // namespace graft
