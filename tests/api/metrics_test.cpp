// SPDX-License-Identifier: Apache-2.0
// What the process counts of kernels and runs.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "graft/graft.h"
#include "graft/metrics.h"
#include "support/text_network.h"

namespace {

constexpr int64_t kColumns = 48;

/// A network under a name of its own, so that tests do not count each other's runs.
graft::Engine engine(const std::string& name, const char* text = graft_test::kMlp, const char* mode = "generated") {
  std::string renamed = text;
  const size_t begin = renamed.find('"') + 1;
  renamed.replace(begin, renamed.find('"', begin) - begin, name);
  return graft::Engine(graft_test::compile_text(renamed, {{"tune", "off"}, {"mode", mode}}));
}

/// The value of a metric of an engine, or of the process; -1 where there is none.
double value(const std::string& name, const std::string& engine = "") {
  double found = -1;
  for (const graft::Metric& metric : graft::metrics()) {
    if (metric.name == name && metric.engine == engine) found = metric.value;
  }
  return found;
}

graft::Status run(graft::Session& session, int64_t columns = kColumns) {
  std::vector<float> x(static_cast<size_t>(3 * columns), 0.5F);
  graft::TensorView output{.name = "y"};
  return session.run({graft::view("x", x.data(), {3, columns})}, {&output, 1});
}

TEST(Metrics, runs_and_their_ends_are_counted_by_engine) {
  const graft::Engine counted = engine("counted runs");
  EXPECT_EQ(value("graft_engines", "counted runs"), 1);
  EXPECT_EQ(value("graft_runs_total", "counted runs"), 0);
  graft::Session session(counted);
  EXPECT_EQ(value("graft_sessions", "counted runs"), 1);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run(session).ok());
  EXPECT_FALSE(run(session, 7).ok());
  EXPECT_EQ(value("graft_runs_total", "counted runs"), 3);
  EXPECT_EQ(value("graft_run_failures_total", "counted runs"), 1);
  EXPECT_EQ(value("graft_run_cancellations_total", "counted runs"), 0);
  EXPECT_GT(value("graft_run_seconds_total", "counted runs"), 0);
  EXPECT_EQ(value("graft_arena_bytes", "counted runs"), static_cast<double>(session.arena_bytes()));
  EXPECT_EQ(value("graft_interpreted_steps_total", "counted runs"), 0);
}

TEST(Metrics, a_deadline_is_a_cancellation) {
  graft::Session session(engine("cancelled run", graft_test::kCountdown));
  ASSERT_TRUE(session.set_deadline(0.01).ok());
  int64_t turns = int64_t{1} << 40;
  graft::TensorView output{.name = "left"};
  EXPECT_EQ(session.run({graft::view("turns", &turns, {})}, {&output, 1}).kind(), graft::ErrorKind::kCancelled);
  EXPECT_EQ(value("graft_run_cancellations_total", "cancelled run"), 1);
  EXPECT_EQ(value("graft_run_failures_total", "cancelled run"), 0);
}

TEST(Metrics, steps_without_a_kernel_are_counted_in_bodies_too) {
  graft::Session session(engine("interpreted", graft_test::kMlp, "interpret"));
  ASSERT_TRUE(run(session).ok());
  const double steps = value("graft_interpreted_steps_total", "interpreted");
  EXPECT_GT(steps, 0);
  ASSERT_TRUE(run(session).ok());
  EXPECT_EQ(value("graft_interpreted_steps_total", "interpreted"), 2 * steps);
  graft::Session loop(engine("interpreted loop", graft_test::kCountdown, "interpret"));
  int64_t turns = 10;
  graft::TensorView output{.name = "left"};
  ASSERT_TRUE(loop.run({graft::view("turns", &turns, {})}, {&output, 1}).ok());
  EXPECT_GE(value("graft_interpreted_steps_total", "interpreted loop"), 10);
}

TEST(Metrics, counts_of_what_has_ended_stay_and_engines_of_one_name_count_together) {
  auto first = std::make_unique<graft::Engine>(engine("ended")), second = std::make_unique<graft::Engine>(*first);
  const graft::Engine other = engine("ended");
  EXPECT_EQ(value("graft_engines", "ended"), 2);
  {
    graft::Session one(*first), two(other);
    ASSERT_TRUE(run(one).ok() && run(two).ok());
    EXPECT_EQ(value("graft_sessions", "ended"), 2);
  }
  first.reset(), second.reset();
  EXPECT_EQ(value("graft_engines", "ended"), 1);
  EXPECT_EQ(value("graft_sessions", "ended"), 0);
  EXPECT_EQ(value("graft_runs_total", "ended"), 2);
  EXPECT_EQ(value("graft_arena_bytes", "ended"), 0);
}

TEST(Metrics, measurements_of_the_tuner_count_for_nobody) {
  const graft::Engine tuned(graft_test::compile_text(
      "graph \"tuned alone\" {\n  opset \"\" 28\n  input %x: f32[64, 64]\n  constant %w: f32[64, 64] = all 0.5\n"
      "  %y: ? = MatMul \"multiply\" (%x, %w)\n  output %y\n}", {{"tune", "fast"}}));
  EXPECT_EQ(value("graft_runs_total", "tuned alone"), 0);
  EXPECT_EQ(value("graft_sessions", "tuned alone"), 0);
}

TEST(Metrics, kernels_are_counted_by_the_process) {
  const double before = value("graft_kernel_cache_hits_total") + value("graft_kernel_cache_misses_total");
  ASSERT_GE(before, 0);
  const graft::Engine made = engine("of kernels");
  if (std::string(made.describe()).find("\"generated\":0") != std::string::npos) GTEST_SKIP() << "no code generator";
  EXPECT_GT(value("graft_kernel_cache_hits_total") + value("graft_kernel_cache_misses_total"), before);
  EXPECT_EQ(value("graft_kernel_compilations_total"), static_cast<double>(graft_compilation_count()));
  EXPECT_GE(value("graft_kernel_compile_seconds_total"), 0);
  EXPECT_GE(value("graft_host_fallbacks_total"), 0);
}

TEST(Metrics, the_text_is_what_prometheus_reads_whatever_a_model_is_called) {
  const std::string name = "a \\ b é";
  std::string escaped;  // of the graph's text
  for (const char c : name) escaped += c == '\\' ? std::string("\\\\") : std::string(1, c);
  graft::Session session(engine(escaped));
  ASSERT_TRUE(run(session).ok());
  const std::string text = graft::metrics_text();
  EXPECT_NE(text.find("# HELP graft_runs_total Runs that succeeded.\n# TYPE graft_runs_total counter\n"), text.npos);
  EXPECT_NE(text.find("# TYPE graft_arena_bytes gauge\n"), text.npos);
  EXPECT_NE(text.find("graft_runs_total{engine=\"a \\\\ b é\",device=\"cpu\"} 1\n"), text.npos) << text;
  EXPECT_NE(text.find("graft_build_info{version=\""), text.npos);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(text.find("# TYPE graft_runs_total", text.find("# TYPE graft_runs_total") + 1), text.npos);
}

TEST(Metrics, they_are_read_while_sessions_run_and_end) {
  const graft::Engine shared = engine("busy");
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        graft::Session session(shared, 1);
        for (int r = 0; r < 5; ++r) EXPECT_TRUE(run(session).ok());
      }
    });
  }
  double last = 0;
  while (last < 3 * 20 * 5) {
    const double now = value("graft_runs_total", "busy");
    ASSERT_GE(now, last);
    last = now;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(value("graft_runs_total", "busy"), 3 * 20 * 5);
}

TEST(Metrics, a_function_that_is_null_is_an_error) {
  graft_error error;
  EXPECT_EQ(graft_metrics(nullptr, nullptr, &error), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_metrics_text(nullptr, nullptr, &error), GRAFT_INVALID_ARGUMENT);
}

}  // namespace
