// SPDX-License-Identifier: Apache-2.0
// What several threads may do at once: run sessions of one engine, compile and load through one kernel cache, and log.
// `./dev sanitize thread threads` runs these under ThreadSanitizer.
//
// ThreadSanitizer sees every access of code that was built with it: the library, the runtime, the thread team, the
// compiler and this test. It does not see generated kernels, LLVM and the C++ runtime's own code (they are not
// instrumented, and TSAN_OPTIONS=ignore_noninstrumented_modules=1 drops what they call). So a race between two kernels
// on one buffer shows here only in results, which are compared bit for bit with those of one thread, or in the
// library's own reads of that buffer; a race between two users of an engine's data, of the cache or of the log is
// reported.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/random.h"
#include "graft/graft.h"
#include "graft/run_async.h"
#include "modules/open_module.h"
#include "plan/temporary_directory.h"
#include "support/text_network.h"

namespace {

using Floats = std::vector<float>;
using Shape = std::vector<int64_t>;
using Outputs = std::vector<std::vector<std::byte>>;
using graft::Session;

constexpr int kSessions = 8;
constexpr int kRuns = 24;

using Network = graft_test::TextNetwork;
const std::vector<Network>& kNetworks = graft_test::kTextNetworks;

/// The cache of the whole process, in a folder that goes with it.
class OwnKernelCache : public testing::Environment {
 public:
  void SetUp() override { setenv("GRAFT_CACHE", (folder_ / "kernels").c_str(), 1); }

 private:
  graft::TemporaryDirectory folder_;
};
const testing::Environment* const kOwnKernelCache = testing::AddGlobalTestEnvironment(new OwnKernelCache);

graft::Engine compile(const Network& network, const char* threads = "2") {
  return graft::Engine(graft_test::compile_text(network.text, {{"threads", threads}}));
}

Floats seeded_input(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  Floats x(static_cast<size_t>(count));
  graft::Random random(static_cast<uint64_t>(count) + 5);
  for (float& value : x) value = static_cast<float>(random.uniform(-1, 1));
  return x;
}

Outputs bytes_of(const std::vector<graft::TensorView>& outputs) {
  Outputs results;
  for (const graft::TensorView& output : outputs) {
    size_t bytes = output.dtype == graft::DataType::kInt64 ? 8 : 4;
    for (const int64_t extent : output.shape) bytes *= static_cast<size_t>(extent);
    const auto* data = static_cast<const std::byte*>(output.data);
    results.emplace_back(data, data + bytes);
  }
  return results;
}

/// Runs on seeded values and copies what comes out.
Outputs run(Session& session, const Network& network, const Shape& shape) {
  Floats x = seeded_input(shape);
  std::vector<graft::TensorView> outputs;
  for (const std::string& name : network.outputs) outputs.push_back({.name = name});
  const graft::Status status = session.run({graft::view("x", x.data(), shape)}, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return status.ok() ? bytes_of(outputs) : Outputs{};
}

/// What one session on one thread computes, by shape.
std::vector<Outputs> expected_outputs(const graft::Engine& engine, const Network& network) {
  Session session(engine, 1);
  std::vector<Outputs> expected;
  for (const Shape& shape : network.shapes) expected.push_back(run(session, network, shape));
  return expected;
}

/// Runs the shapes in an order of the session's own; counts results that differ in a bit.
int count_differences(Session& session, const Network& network, const std::vector<Outputs>& expected, uint64_t seed) {
  graft::Random order(seed);
  int differences = 0;
  for (int i = 0; i < kRuns; ++i) {
    const auto s = static_cast<size_t>(order.integer(0, static_cast<int64_t>(network.shapes.size()) - 1));
    differences += run(session, network, network.shapes[s]) != expected[s];
  }
  return differences;
}

/// Calls body(number) on as many threads at once and waits.
template <class Body>
void at_once(int threads, const Body& body) {
  std::vector<std::thread> running;
  std::atomic<int> ready{0};
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      ++ready;
      while (ready < threads) std::this_thread::yield();
      body(t);
    });
  }
  for (std::thread& thread : running) thread.join();
}

class EachNetwork : public testing::TestWithParam<int> {
 protected:
  const Network& network() const { return kNetworks[GetParam()]; }
};

TEST_P(EachNetwork, gives_eight_sessions_at_once_the_results_of_one_thread) {
  const graft::Engine engine = compile(network());
  const std::vector<Outputs> expected = expected_outputs(engine, network());
  std::atomic<int> differences{0};
  at_once(kSessions, [&](int t) {
    Session session(engine);
    differences += count_differences(session, network(), expected, static_cast<uint64_t>(t));
  });
  EXPECT_EQ(differences, 0);
}

TEST_P(EachNetwork, is_interpreted_by_eight_sessions_at_once) {
  const Network small{network().text, {network().shapes[0], network().shapes[1]}, network().outputs};
  const graft::Engine engine(graft_test::compile_text(small.text, {{"threads", "2"}, {"mode", "interpret"}}));
  const std::vector<Outputs> expected = expected_outputs(engine, small);
  std::atomic<int> differences{0};
  at_once(kSessions, [&](int t) {
    Session session(engine);
    for (size_t s = 0; s < small.shapes.size(); ++s) {
      const size_t shape = (s + static_cast<size_t>(t)) % small.shapes.size();
      differences += run(session, small, small.shapes[shape]) != expected[shape];
    }
  });
  EXPECT_EQ(differences, 0);
}

INSTANTIATE_TEST_SUITE_P(Threads, EachNetwork, testing::Values(0, 1, 2, 3), [](const auto& info) {
  return std::string(std::array{"mlp", "convolutions", "attention", "positives"}[static_cast<size_t>(info.param)]);
});

TEST(Threads, sessions_outlive_the_engine_that_was_released_while_they_run) {
  for (const Network& network : kNetworks) {
    auto engine = std::make_unique<graft::Engine>(compile(network));
    const std::vector<Outputs> expected = expected_outputs(*engine, network);
    std::atomic<int> differences{0}, made{0};
    at_once(kSessions + 1, [&](int t) {
      if (t == kSessions) {
        while (made < kSessions) std::this_thread::yield();
        engine.reset();
        return;
      }
      Session session(*engine);
      ++made;
      differences += count_differences(session, network, expected, static_cast<uint64_t>(t));
    });
    EXPECT_EQ(differences, 0);
  }
}

/// Threads that start runs of a few sessions at the same time, wait, cancel and run in between.
TEST(Threads, start_asynchronous_runs_of_sessions_that_others_cancel_and_run) {
  const Network& network = kNetworks[0];
  const graft::Engine engine = compile(network);
  const std::vector<Outputs> expected = expected_outputs(engine, network);
  std::atomic<int> differences{0}, ends{0}, started{0};
  {
    std::vector<std::unique_ptr<Session>> sessions;
    for (int i = 0; i < 3; ++i) sessions.push_back(std::make_unique<Session>(engine));
    at_once(kSessions, [&](int t) {
      graft::Random order(static_cast<uint64_t>(t));
      for (int i = 0; i < 4 * kRuns; ++i) {
        Session& session = *sessions[static_cast<size_t>(order.integer(0, 2))];
        const auto s = static_cast<size_t>(order.integer(0, static_cast<int64_t>(network.shapes.size()) - 1));
        const Shape& shape = network.shapes[s];
        const auto x = std::make_shared<Floats>(seeded_input(shape));
        ++started;
        const auto done = [&, s, x](graft::RunResult result) {
          ++ends;
          if (result.status.kind() == graft::ErrorKind::kCancelled) return;
          differences += !result.status.ok() || bytes_of(result.outputs) != expected[s];
        };
        differences += !graft::run_async(session, {graft::view("x", x->data(), shape)}, {{.name = "y"}}, done).ok();
        if (i % 7 == 3) session.cancel();
        if (i % 11 == 5) differences += !session.wait().ok();
      }
    });
    differences += run(*sessions[0], network, network.shapes[0]) != expected[0];
  }
  EXPECT_EQ(differences, 0);
  EXPECT_EQ(ends, started);
}

TEST(Threads, end_sessions_while_their_asynchronous_runs_go_on) {
  const Network& network = kNetworks[0];
  const graft::Engine engine = compile(network);
  std::atomic<int> ends{0};
  at_once(4, [&](int t) {
    Floats x = seeded_input(network.shapes[2]);
    for (int i = 0; i < 10; ++i) {
      auto session = std::make_unique<Session>(engine);
      for (int run = 0; run < 5; ++run) {
        const graft::TensorView input = graft::view("x", x.data(), network.shapes[2]);
        EXPECT_TRUE(graft::run_async(*session, {input}, {}, [&](graft::RunResult) { ++ends; }).ok());
      }
      if (t % 2) std::this_thread::sleep_for(std::chrono::microseconds(100 * i));
    }
  });
  EXPECT_EQ(ends, 4 * 10 * 5);
}

TEST(Threads, describe_copy_and_release_one_engine) {
  const graft::Engine engine = compile(kNetworks[0]);
  std::atomic<int> differences{0};
  at_once(kSessions, [&](int) {
    for (int i = 0; i < 20; ++i) {
      const graft::Engine copy = engine;
      graft_engine_release(graft_engine_retain(copy.handle()));
      differences += copy.describe().data() != engine.describe().data();
      differences += copy.inputs().size() != 1;
    }
  });
  EXPECT_EQ(differences, 0);
}

TEST(Threads, compile_save_and_load_the_same_plan_while_the_kernel_cache_is_emptied) {
  if (graft::find_module("llvm").empty()) GTEST_SKIP() << "no CPU code generator is here, as warnings tell";
  std::string warnings;
  graft::set_log([&](graft::LogLevel, std::string_view message) { warnings += message; }, graft::LogLevel::kWarning);
  for (const Network& network : {kNetworks[0], kNetworks[3]}) {
    const graft::TemporaryDirectory folder;
    const graft::Engine reference = compile(network);
    const std::vector<Outputs> expected = expected_outputs(reference, network);
    reference.save(folder / "network.graft");
    std::atomic<int> differences{0}, working{3};
    at_once(4, [&](int t) {
      while (t == 3 && working > 0) {
        for (const auto& entry : std::filesystem::directory_iterator(std::getenv("GRAFT_CACHE"))) {
          std::error_code gone;
          std::filesystem::remove(entry, gone);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      if (t == 3) return;
      const graft::Engine engine = t ? compile(network) : graft::load(folder / "network.graft");
      engine.save(folder / "network.graft");
      Session session(graft::load(folder / "network.graft"), 1);
      for (size_t s = 0; s < network.shapes.size(); ++s) {
        differences += run(session, network, network.shapes[s]) != expected[s];
      }
      --working;
    });
    EXPECT_EQ(differences, 0);
  }
  graft::set_log({});
  EXPECT_EQ(warnings, "");
}

TEST(Threads, log_one_message_at_a_time) {
  int64_t messages = 0, bytes = 0;  // on purpose neither atomic nor behind a lock of the test's own
  const auto count = [&](graft::LogLevel, std::string_view message) {
    ++messages;
    bytes += static_cast<int64_t>(message.size());
  };
  graft::set_log(count, graft::LogLevel::kTrace);
  at_once(4, [&](int t) {
    const graft::Engine engine = compile(kNetworks[t % 2]);
    Session session(engine);
    run(session, kNetworks[t % 2], kNetworks[t % 2].shapes[0]);
  });
  graft::set_log({});
  EXPECT_GT(messages, 4);
  EXPECT_GT(bytes, messages);
}

TEST(Threads, change_the_log_while_others_write_to_it) {
  std::atomic<bool> done{false};
  int64_t messages = 0;
  at_once(3, [&](int t) {
    if (t < 2) {
      for (int i = 0; i < 3; ++i) compile(kNetworks[t]);
      done = true;
      return;
    }
    while (!done) {
      graft::set_log([&](graft::LogLevel, std::string_view) { ++messages; }, graft::LogLevel::kStep);
      std::this_thread::yield();
    }
  });
  graft::set_log({});
  EXPECT_GE(messages, 0);
}

}  // namespace
