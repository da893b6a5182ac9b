// SPDX-License-Identifier: Apache-2.0
// Requests of mixed shapes from many threads for a long time: every result has the bits of the first one of its shape,
// and memory stays where it was. `./dev soak` runs it for minutes:
//
//   GRAFT_SOAK_SECONDS=480 GRAFT_TEST_DEVICE=cuda GRAFT_SOAK_PLANS=a.graft:b.graft graft_soak_tests
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/random.h"
#include "device/cuda/driver.h"
#include "graft/graft.h"
#include "support/text_network.h"

namespace {

using Clock = std::chrono::steady_clock;
using graft::Random;

constexpr int kThreads = 8;
constexpr int kRequests = 12;  // different ones of a plan
constexpr double kMostGrowth = 0.01;

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

bool on_gpu() { return variable("GRAFT_TEST_DEVICE", "cpu") != "cpu"; }
double seconds() { return std::stod(variable("GRAFT_SOAK_SECONDS", "6")); }

size_t width_of(graft::DataType type) {
  switch (type) {
    case graft::DataType::kInt64:
      return 8;
    case graft::DataType::kFloat32:
      return 4;
    case graft::DataType::kFloat16:
      return 2;
    default:
      throw std::runtime_error("the soak test knows inputs and outputs of f32, f16 and i64 only");
  }
}

/// Inputs with their values.
struct Request {
  std::vector<std::vector<std::byte>> data;
  std::vector<graft::TensorView> inputs;

  void add(const graft::ValueInfo& info, const std::vector<int64_t>& shape, Random& random) {
    size_t count = 1;
    for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
    std::vector<std::byte> bytes(count * width_of(info.dtype));
    for (size_t i = 0; i < count; ++i) {
      if (info.dtype == graft::DataType::kFloat32) {
        reinterpret_cast<float*>(bytes.data())[i] = static_cast<float>(random.uniform(-1, 1));
      } else {
        bytes[i * width_of(info.dtype)] = static_cast<std::byte>(random.integer(0, 1));
      }
    }
    data.push_back(std::move(bytes));
    inputs.push_back({.name = info.name, .dtype = info.dtype, .shape = shape, .data = data.back().data()});
  }
};

/// A network, what is asked of it, and the hashes of the right answers.
struct Subject {
  graft::Engine engine;
  std::vector<Request> requests = {};
  std::vector<std::string> expected = {};
};

std::string answer(graft::Session& session, const Subject& subject, const Request& request) {
  std::vector<graft::TensorView> outputs;
  const std::vector<graft::ValueInfo> infos = subject.engine.outputs();
  for (const graft::ValueInfo& info : infos) outputs.push_back({.name = info.name});
  const graft::Status status = session.run(request.inputs, outputs);
  if (!status.ok()) return "failed: " + status.message();
  graft::Hasher hasher;
  for (const graft::TensorView& output : outputs) {
    size_t bytes = width_of(output.dtype);
    for (const int64_t extent : output.shape) bytes *= static_cast<size_t>(extent), hasher.add(extent);
    hasher.add(std::string_view(static_cast<const char*>(output.data), bytes));
  }
  return hasher.finish().to_string();
}

/// A request whose symbolic sizes are drawn from the plan's ranges.
Request drawn(const graft::Engine& engine, Random& random) {
  constexpr int64_t kLargest = 16;  // where a plan has no limit
  std::map<std::string, int64_t> sizes;
  Request request;
  for (const graft::ValueInfo& info : engine.inputs()) {
    std::vector<int64_t> shape;
    for (const auto& axis : info.axes) {
      if (axis.size >= 0) {
        shape.push_back(axis.size);
        continue;
      }
      const int64_t most = axis.max > 0 ? axis.max : kLargest;
      shape.push_back(sizes.emplace(axis.text, random.integer(std::max<int64_t>(axis.min, 1), most)).first->second);
    }
    request.add(info, shape, random);
  }
  return request;
}

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  const std::string device = variable("GRAFT_TEST_DEVICE", "cpu");
  for (const graft_test::TextNetwork& network : graft_test::kTextNetworks) {
    Subject subject{
        graft::Engine(graft_test::compile_text(network.text, {{"threads", "1"}, {"device", device.c_str()}}))};
    Random random(all.size() + 1);
    for (const std::vector<int64_t>& shape : network.shapes) {
      subject.requests.emplace_back().add(subject.engine.inputs()[0], shape, random);
    }
    all.push_back(std::move(subject));
  }
  std::istringstream plans(variable("GRAFT_SOAK_PLANS", ""));
  for (std::string path; std::getline(plans, path, ':');) {
    Subject subject{graft::load(path, device)};
    Random random(all.size() + 1);
    for (int i = 0; i < kRequests; ++i) subject.requests.push_back(drawn(subject.engine, random));
    all.push_back(std::move(subject));
  }
  for (Subject& subject : all) {
    graft::Session session(subject.engine);
    for (const Request& request : subject.requests) subject.expected.push_back(answer(session, subject, request));
  }
  return all;
}

/// Bytes of memory in use: of this process, and of the GPU where one runs the networks.
struct Usage {
  double host = 0, device = 0;
};

Usage usage() {
  Usage now;
  std::ifstream status("/proc/self/statm");
  size_t pages = 0;
  status >> pages >> pages;
  now.host = static_cast<double>(pages) * 4096;
  if (!on_gpu()) return now;
  const graft::cuda::Driver& driver = graft::cuda::driver();
  graft::cuda::Handle context = nullptr;
  int device = 0;
  driver.device_get(&device, 0);
  graft::cuda::check(driver.retain_context(&context, device), "the context");
  const graft::cuda::Current current(context);
  size_t free = 0, total = 0;
  graft::cuda::check(driver.memory_info(&free, &total), "the free memory");
  now.device = static_cast<double>(total - free);
  return now;
}

/// What all threads share.
struct Soak {
  std::vector<Subject> all;
  Clock::time_point end;
  std::atomic<int64_t> runs{0}, wrong{0};
  std::mutex mutex;
  std::string first_failure;

  bool failed() const { return wrong > 0; }

  void fail(const std::string& what) {
    ++wrong;
    const std::lock_guard lock(mutex);
    if (first_failure.empty()) first_failure = what;
  }
};

void client(Soak& soak, uint64_t seed) {
  Random random(seed);
  std::vector<graft::Session> sessions;
  for (const Subject& subject : soak.all) sessions.emplace_back(subject.engine, 1);
  while (Clock::now() < soak.end && !soak.failed()) {
    const auto s = static_cast<size_t>(random.integer(0, static_cast<int64_t>(soak.all.size()) - 1));
    const Subject& subject = soak.all[s];
    const auto r = static_cast<size_t>(random.integer(0, static_cast<int64_t>(subject.requests.size()) - 1));
    const std::string got = answer(sessions[s], subject, subject.requests[r]);
    ++soak.runs;
    if (got != subject.expected[r]) {
      soak.fail(fmt::format("network {}, request {} after {} runs: {}", s, r, soak.runs.load(), got));
    }
  }
}

/// The largest usage between two shares of the time.
Usage largest(const std::vector<Usage>& samples, double from, double to) {
  Usage most;
  const auto count = static_cast<double>(samples.size());
  for (auto i = static_cast<size_t>(from * count); i < static_cast<size_t>(to * count); ++i) {
    most.host = std::max(most.host, samples[i].host), most.device = std::max(most.device, samples[i].device);
  }
  return most;
}

TEST(Soak, mixed_requests_of_many_threads_keep_results_and_memory) {
  Soak soak;
  soak.all = subjects();
  const auto begin = Clock::now();
  soak.end = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds()));
  std::vector<Usage> samples;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) threads.emplace_back(client, std::ref(soak), static_cast<uint64_t>(t) + 1);
    while (Clock::now() < soak.end && !soak.failed()) {
      try {
        samples.push_back(usage());
      } catch (const std::exception& error) {
        soak.fail(error.what());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  ASSERT_FALSE(soak.failed()) << soak.first_failure;
  // In the first half every session meets every shape.
  const Usage before = largest(samples, 0.4, 0.5), after = largest(samples, 0.9, 1.0);
  fmt::print(
      "{} runs of {} networks by {} threads in {:.0f} s, {} wrong; host memory {:.1f} -> {:.1f} MB, device {:.1f} -> "
      "{:.1f} MB\n",
      soak.runs.load(), soak.all.size(), kThreads, seconds(), soak.wrong.load(), before.host / 1e6, after.host / 1e6,
      before.device / 1e6, after.device / 1e6);
  EXPECT_LE(after.host, before.host * (1 + kMostGrowth));
  EXPECT_LE(after.device, before.device * (1 + kMostGrowth));
}

}  // namespace
