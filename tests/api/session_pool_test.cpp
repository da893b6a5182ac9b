// SPDX-License-Identifier: Apache-2.0
// Sessions that calls from many threads take from one pool.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "graft/graft.h"
#include "support/text_network.h"

namespace {

constexpr int64_t kColumns = 48, kResults = 10;

graft::Engine engine() { return graft::Engine(graft_test::compile_text(graft_test::kMlp, {{"tune", "off"}})); }

std::vector<float> run(graft::Session& session, std::vector<float> x) {
  const auto rows = static_cast<int64_t>(x.size()) / kColumns;
  std::vector<float> y(static_cast<size_t>(rows * kResults));
  graft::TensorView output = graft::view("y", y.data(), {rows, kResults});
  const graft::Status status = session.run({graft::view("x", x.data(), {rows, kColumns})}, {&output, 1});
  EXPECT_TRUE(status.ok()) << status.message();
  return y;
}

std::vector<float> input(int64_t rows) {
  std::vector<float> x(static_cast<size_t>(rows * kColumns));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) / 17 - 0.5F;
  return x;
}

TEST(SessionPool, a_session_is_used_again_when_its_call_has_ended) {
  graft::SessionPool pool(engine(), 1);
  graft::Session* first = nullptr;
  {
    const auto session = pool.take();
    first = session.get();
    run(*session, input(2));
  }
  const auto again = pool.take(), other = pool.take();
  EXPECT_EQ(again.get(), first);
  EXPECT_NE(other.get(), first);
}

TEST(SessionPool, a_session_goes_back_when_its_run_fails) {
  graft::SessionPool pool(engine(), 1);
  graft::Session* first = nullptr;
  {
    const auto session = pool.take();
    first = session.get();
    std::vector<float> x(kColumns);
    EXPECT_FALSE(session->run({graft::view("x", x.data(), {kColumns})}, {}).ok());
  }
  const auto again = pool.take();
  EXPECT_EQ(again.get(), first);
  EXPECT_EQ(run(*again, input(3)), run(*pool.take(), input(3)));
}

TEST(SessionPool, calls_of_many_threads_have_a_session_each_and_no_more_are_made) {
  constexpr int kThreads = 8, kCalls = 50;
  graft::SessionPool pool(engine(), 1);
  std::vector<std::vector<float>> expected;
  for (int64_t rows = 1; rows <= 4; ++rows) expected.push_back(run(*pool.take(), input(rows)));
  std::atomic<int> at_once{0}, wrong{0};
  std::vector<std::set<graft::Session*>> used(kThreads);
  std::atomic<int> most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int call = 0; call < kCalls; ++call) {
        const int64_t rows = 1 + (t + call) % 4;
        const auto session = pool.take();
        const int now = ++at_once;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        used[static_cast<size_t>(t)].insert(session.get());
        wrong += run(*session, input(rows)) != expected[static_cast<size_t>(rows - 1)];
        --at_once;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<graft::Session*> all;
  for (const auto& each : used) all.insert(each.begin(), each.end());
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(all.size(), static_cast<size_t>(kThreads));
  EXPECT_GE(all.size(), static_cast<size_t>(most));
}

TEST(SessionPool, an_engine_for_another_machine_gives_no_sessions) {
  graft::SessionPool pool(graft::Engine(graft_test::compile_text(graft_test::kMlp, {{"target", "sm_90a"},
                                                                                    {"tune", "off"}})));
  try {
    pool.take();
    FAIL();
  } catch (const graft::Error& error) {
    EXPECT_EQ(error.kind(), graft::ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("another machine"), std::string::npos) << error.what();
  }
}

}  // namespace
