// SPDX-License-Identifier: Apache-2.0
// Asynchronous runs: their results, order, errors and ends.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "graft/graft.h"
#include "graft/run_async.h"
#include "support/text_network.h"

namespace {

using std::chrono::milliseconds;
constexpr int64_t kColumns = 48, kResults = 10;

graft::Engine mlp() { return graft::Engine(graft_test::compile_text(graft_test::kMlp, {{"tune", "off"}})); }

/// A loop that takes seconds, unless it is ended.
graft::Engine endless() {
  return graft::Engine(graft_test::compile_text(graft_test::kCountdown, {{"tune", "off"}, {"threads", "1"}}));
}

std::vector<float> input(int64_t rows, float first = 0) {
  std::vector<float> x(static_cast<size_t>(rows * kColumns));
  for (size_t i = 0; i < x.size(); ++i) x[i] = first + static_cast<float>(i % 17) / 17 - 0.5F;
  return x;
}

std::vector<float> run(graft::Session& session, std::vector<float> x) {
  const auto rows = static_cast<int64_t>(x.size()) / kColumns;
  std::vector<float> y(static_cast<size_t>(rows * kResults));
  graft::TensorView output = graft::view("y", y.data(), {rows, kResults});
  const graft::Status status = session.run({graft::view("x", x.data(), {rows, kColumns})}, {&output, 1});
  EXPECT_TRUE(status.ok()) << status.message();
  return y;
}

std::vector<float> floats(const graft::TensorView& view) {
  const auto* data = static_cast<const float*>(view.data);
  return {data, data + view.shape[0] * view.shape[1]};
}

/// What graft_session_run_async tells, of runs of a session in C.
struct Ends {
  std::mutex mutex;
  std::vector<std::pair<graft_status, std::string>> all;
  std::vector<std::thread::id> threads;

  static void add(void* context, graft_status status, const char* message) {
    Ends& ends = *static_cast<Ends*>(context);
    const std::lock_guard lock(ends.mutex);
    ends.all.emplace_back(status, message);
    ends.threads.push_back(std::this_thread::get_id());
  }
};

/// A run of the loop in C, with all that has to stay.
struct Countdown {
  int64_t turns;
  int64_t result = 77;
  graft_tensor input = {.struct_size = sizeof(graft_tensor), .name = "turns", .dtype = GRAFT_INT64, .data = &turns};
  graft_tensor output = {.struct_size = sizeof(graft_tensor), .name = "left", .dtype = GRAFT_INT64, .data = &result};
  uint64_t number = 0;
  graft_error error = {};

  explicit Countdown(int64_t count) : turns(count) {}
  graft_status start(graft_session* session, Ends& ends) {
    return graft_session_run_async(session, &input, 1, &output, 1, nullptr, Ends::add, &ends, &number, &error);
  }
};
constexpr int64_t kForever = int64_t{1} << 40;

TEST(RunAsync, a_future_has_the_results_of_a_run) {
  const graft::Engine engine = mlp();
  graft::Session session(engine), other(engine);
  std::vector<float> x = input(3);
  std::future<graft::RunResult> future =
      graft::run_async(session, {graft::view("x", x.data(), {3, kColumns})}, {{.name = "y"}});
  const graft::RunResult result = future.get();
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_EQ(result.outputs[0].shape, (std::vector<int64_t>{3, kResults}));
  EXPECT_EQ(floats(result.outputs[0]), run(other, x));
}

TEST(RunAsync, results_of_queued_runs_have_memory_of_their_own) {
  graft::Session session(mlp());
  std::vector<std::vector<float>> inputs, expected;
  for (int i = 0; i < 8; ++i) inputs.push_back(input(2, static_cast<float>(i)));
  for (const std::vector<float>& x : inputs) expected.push_back(run(session, x));
  std::vector<std::future<graft::RunResult>> futures;
  for (std::vector<float>& x : inputs) {
    futures.push_back(graft::run_async(session, {graft::view("x", x.data(), {2, kColumns})}, {{.name = "y"}}));
  }
  std::vector<graft::RunResult> results;
  for (auto& future : futures) results.push_back(future.get());
  for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(floats(results[i].outputs[0]), expected[i]) << i;
}

TEST(RunAsync, an_output_with_data_is_written_there_and_an_allocator_is_asked) {
  graft::Session session(mlp());
  std::vector<float> x = input(2), y(2 * kResults), given(2 * kResults);
  const std::vector<float> expected = run(session, x);
  const graft::TensorView in = graft::view("x", x.data(), {2, kColumns});
  ASSERT_TRUE(graft::run_async(session, {in}, {graft::view("y", y.data(), {2, kResults})}).get().status.ok());
  EXPECT_EQ(y, expected);
  const graft::Allocator allocator = [&](int, graft::DataType, std::span<const int64_t>, size_t) -> void* {
    return given.data();
  };
  const graft::RunResult result = graft::run_async(session, {in}, {{.name = "y"}}, allocator).get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.outputs[0].data, given.data());
  EXPECT_EQ(given, expected);
}

TEST(RunAsync, done_is_called_once_on_the_session_s_thread_in_the_order_of_the_calls) {
  graft::Session session(mlp());
  std::vector<float> x = input(2);
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  for (int i = 0; i < 20; ++i) {
    const auto done = [&, i](graft::RunResult result) {
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(result.status.ok()) << result.status.message();
      order.push_back(i), threads.push_back(std::this_thread::get_id());
    };
    ASSERT_TRUE(graft::run_async(session, {graft::view("x", x.data(), {2, kColumns})}, {}, done).ok());
  }
  ASSERT_TRUE(session.wait().ok());  // which waits for all of them
  std::vector<int> expected(20);
  for (int i = 0; i < 20; ++i) expected[static_cast<size_t>(i)] = i;
  EXPECT_EQ(order, expected);
  EXPECT_EQ(threads, std::vector<std::thread::id>(20, threads[0]));
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST(RunAsync, an_error_is_told_and_the_next_run_works) {
  graft::Session session(mlp());
  std::vector<float> x = input(2);
  const graft::TensorView flat = graft::view("x", x.data(), {kColumns});
  const graft::RunResult wrong = graft::run_async(session, {flat}, {{.name = "y"}}).get();
  EXPECT_EQ(wrong.status.kind(), graft::ErrorKind::kInvalidArgument);
  EXPECT_NE(wrong.status.message().find("input 'x'"), std::string::npos) << wrong.status.message();
  const graft::TensorView right = graft::view("x", x.data(), {2, kColumns});
  EXPECT_TRUE(graft::run_async(session, {right}, {{.name = "y"}}).get().status.ok());
}

TEST(RunAsync, what_is_wrong_with_the_call_itself_is_its_status_and_done_is_not_called) {
  graft::Session session(mlp());
  Ends ends;
  graft_error error;
  EXPECT_EQ(graft_session_run_async(nullptr, nullptr, 0, nullptr, 0, nullptr, Ends::add, &ends, nullptr, &error),
            GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_run_async(session.handle(), nullptr, 0, nullptr, 0, nullptr, nullptr, &ends, nullptr, &error),
            GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_run_async(session.handle(), nullptr, 1, nullptr, 0, nullptr, Ends::add, &ends, nullptr,
                                    &error),
            GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.message).find("NULL with a count"), std::string::npos) << error.message;
  session.wait().ok();
  EXPECT_TRUE(ends.all.empty());
}

TEST(RunAsync, a_synchronous_run_and_a_setting_wait_for_those_before_them) {
  graft::Session session(endless());
  Ends ends;
  Countdown first(20'000);
  ASSERT_EQ(first.start(session.handle(), ends), GRAFT_OK) << first.error.message;
  ASSERT_TRUE(session.set_deadline(0.02).ok());  // not of the run before
  EXPECT_EQ(ends.all.size(), 1U);
  EXPECT_EQ(ends.all.at(0).first, GRAFT_OK) << ends.all[0].second;
  Countdown second(kForever);
  ASSERT_EQ(second.start(session.handle(), ends), GRAFT_OK);
  ASSERT_TRUE(session.wait().ok());
  EXPECT_EQ(ends.all.at(1).first, GRAFT_CANCELLED);
  EXPECT_NE(ends.all[1].second.find("deadline"), std::string::npos) << ends.all[1].second;
}

TEST(RunAsync, cancelling_ends_all_runs_so_far_also_those_that_wait) {
  graft::Session session(endless());
  Ends ends;
  Countdown runs[3] = {Countdown(kForever), Countdown(kForever), Countdown(5)};
  for (Countdown& each : runs) ASSERT_EQ(each.start(session.handle(), ends), GRAFT_OK);
  session.cancel();
  Countdown later(5);
  ASSERT_EQ(later.start(session.handle(), ends), GRAFT_OK);
  ASSERT_TRUE(session.wait().ok());
  ASSERT_EQ(ends.all.size(), 4U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(ends.all[i].first, GRAFT_CANCELLED) << i;
  EXPECT_EQ(ends.all[3].first, GRAFT_OK) << ends.all[3].second;
  EXPECT_EQ(later.result, 0);
}

TEST(RunAsync, one_run_is_cancelled_alone_whether_it_goes_on_or_waits) {
  graft::Session session(endless());
  Ends ends;
  Countdown first(kForever), second(kForever), third(5);
  for (Countdown* each : {&first, &second, &third}) ASSERT_EQ(each->start(session.handle(), ends), GRAFT_OK);
  EXPECT_EQ(third.number, second.number + 1);
  graft_session_cancel_run(session.handle(), second.number);
  graft_session_cancel_run(session.handle(), third.number + 7);  // nobody's
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_TRUE(ends.all.empty());
  graft_session_cancel_run(session.handle(), first.number);
  ASSERT_TRUE(session.wait().ok());
  graft_session_cancel_run(session.handle(), first.number);  // which has ended
  ASSERT_EQ(ends.all.size(), 3U);
  EXPECT_EQ(ends.all[0].first, GRAFT_CANCELLED);
  EXPECT_EQ(ends.all[1].first, GRAFT_CANCELLED);
  EXPECT_NE(ends.all[1].second.find("before it began"), std::string::npos) << ends.all[1].second;
  EXPECT_EQ(ends.all[2].first, GRAFT_OK) << ends.all[2].second;
}

TEST(RunAsync, no_cancellation_is_lost_between_the_call_and_the_begin_of_the_run) {
  graft::Session session(endless());
  for (int i = 0; i < 200; ++i) {
    Ends ends;
    Countdown run(kForever);
    ASSERT_EQ(run.start(session.handle(), ends), GRAFT_OK);
    for (std::atomic<int> spin = 0; spin < i * 20;) ++spin;
    if (i % 2) session.cancel();
    else graft_session_cancel_run(session.handle(), run.number);
    ASSERT_TRUE(session.wait().ok());  // forever, if one were lost
    ASSERT_EQ(ends.all.at(0).first, GRAFT_CANCELLED);
  }
}

TEST(RunAsync, a_session_that_ends_cancels_its_runs_and_waits_for_their_ends) {
  Ends ends;
  Countdown first(kForever), second(kForever);
  {
    graft::Session session(endless());
    ASSERT_EQ(first.start(session.handle(), ends), GRAFT_OK);
    ASSERT_EQ(second.start(session.handle(), ends), GRAFT_OK);
  }
  ASSERT_EQ(ends.all.size(), 2U);
  for (const auto& [status, message] : ends.all) EXPECT_EQ(status, GRAFT_CANCELLED) << message;
}

TEST(RunAsync, done_may_run_the_session_again_and_ask_it) {
  graft::Session session(mlp());
  std::vector<float> x = input(2);
  const std::vector<float> expected = run(session, x);
  std::promise<std::vector<float>> inner;
  std::promise<graft::Status> chained;
  const graft::TensorView in = graft::view("x", x.data(), {2, kColumns});
  const auto last = [&](graft::RunResult result) { chained.set_value(result.status); };
  const auto first = [&](graft::RunResult) {
    EXPECT_GT(session.arena_bytes(), 0U);
    EXPECT_TRUE(session.set_deadline(60).ok());
    EXPECT_TRUE(session.wait().ok());
    inner.set_value(run(session, x));
    EXPECT_TRUE(graft::run_async(session, {in}, {}, last).ok());
  };
  ASSERT_TRUE(graft::run_async(session, {in}, {}, first).ok());
  EXPECT_EQ(inner.get_future().get(), expected);
  EXPECT_TRUE(chained.get_future().get().ok());
}

TEST(RunAsync, done_may_end_the_session_whose_other_runs_are_then_cancelled) {
  graft_session* session = nullptr;
  graft_error error;
  const graft::Engine engine = endless();
  ASSERT_EQ(graft_session_create(engine.handle(), 0, &session, &error), GRAFT_OK);
  struct End {
    graft_session* session;
    std::promise<void> told;
  } end{session, {}};
  const auto destroy = [](void* context, graft_status, const char*) {
    End& at = *static_cast<End*>(context);
    graft_session_destroy(at.session);
    at.told.set_value();
  };
  struct Last {
    std::promise<graft_status> status;
  } last;
  const auto tell = [](void* context, graft_status status, const char*) {
    static_cast<Last*>(context)->status.set_value(status);
  };
  Countdown first(1'000), second(kForever);
  ASSERT_EQ(graft_session_run_async(session, &first.input, 1, &first.output, 1, nullptr, destroy, &end, nullptr,
                                    &error), GRAFT_OK);
  ASSERT_EQ(graft_session_run_async(session, &second.input, 1, &second.output, 1, nullptr, tell, &last, nullptr,
                                    &error), GRAFT_OK);
  end.told.get_future().get();
  EXPECT_EQ(last.status.get_future().get(), GRAFT_CANCELLED);
}

TEST(RunAsync, a_chain_of_runs_ends_with_its_session) {
  std::vector<float> x = input(2);
  std::atomic<int> runs{0};
  graft::ErrorKind last = graft::ErrorKind::kNone;
  graft::Session* running = nullptr;
  const std::function<void(graft::RunResult)> again = [&](graft::RunResult) {
    ++runs;
    const graft::TensorView in = graft::view("x", x.data(), {2, kColumns});
    const graft::Status status = graft::run_async(*running, {in}, {}, again);
    if (!status.ok()) last = status.kind();
  };
  {
    graft::Session session(mlp());
    running = &session;
    again({});
    while (runs < 5) std::this_thread::yield();
  }
  EXPECT_EQ(last, graft::ErrorKind::kCancelled);
}

TEST(RunAsync, an_exception_of_done_is_logged_and_the_next_run_works) {
  std::string logged;
  graft::set_log([&](graft::LogLevel, std::string_view message) { logged += message; });
  {
    graft::Session session(mlp());
    std::vector<float> x = input(2);
    const auto raise = [](void*, graft_status, const char*) { throw std::runtime_error("of the caller"); };
    graft_error error;
    std::vector<int64_t> shape = {2, kColumns};
    graft_tensor in = {.struct_size = sizeof(graft_tensor), .dtype = GRAFT_FLOAT32, .rank = 2, .shape = shape.data(),
                       .data = x.data()};
    ASSERT_EQ(graft_session_run_async(session.handle(), &in, 1, nullptr, 0, nullptr, raise, nullptr, nullptr, &error),
              GRAFT_OK);
    EXPECT_TRUE(session.wait().ok());
    EXPECT_EQ(run(session, x).size(), static_cast<size_t>(2 * kResults));
  }
  graft::set_log({});
  EXPECT_NE(logged.find("of the caller"), std::string::npos) << logged;
}

TEST(RunAsync, a_child_after_fork_has_a_thread_of_its_own) {
  graft::Session session(mlp(), 1);
  std::vector<float> x = input(2);
  const graft::TensorView in = graft::view("x", x.data(), {2, kColumns});
  ASSERT_TRUE(graft::run_async(session, {in}, {{.name = "y"}}).get().status.ok());
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const bool good = session.wait().ok() && graft::run_async(session, {in}, {{.name = "y"}}).get().status.ok();
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
