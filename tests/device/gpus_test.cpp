// SPDX-License-Identifier: Apache-2.0
// Several GPUs of one process, and what a thread finds after a run. Skipped where there are too few.
#include <gtest/gtest.h>

#include <thread>

#include <fmt/format.h>

#include "base/random.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "graft/graft.h"
#include "support/text_network.h"

namespace {

using graft::cuda::driver;
using Bytes = std::vector<std::byte>;

int gpu_count() {
  int count = 0;
  if (graft::why_no_cuda_device().empty()) driver().device_count(&count);
  return count;
}

/// Every answer of a network, shape by shape, twice each: step by step, and from the recorded graph.
std::vector<Bytes> answers(const graft_test::TextNetwork& network, const std::string& device) {
  const graft::Engine engine(graft_test::compile_text(network.text, {{"device", device.c_str()}, {"tune", "off"}}));
  graft::Session session(engine);
  std::vector<Bytes> all;
  for (const std::vector<int64_t>& shape : network.shapes) {
    size_t count = 1;
    for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
    std::vector<float> x(count);
    graft::Random random(count);
    for (float& value : x) value = static_cast<float>(random.uniform(-1, 1));
    for (int run = 0; run < 3; ++run) {
      std::vector<graft::TensorView> outputs;
      for (const std::string& name : network.outputs) outputs.push_back({.name = name});
      const graft::Status status = session.run({graft::view("x", x.data(), shape)}, outputs);
      EXPECT_TRUE(status.ok()) << device << ": " << status.message();
      for (const graft::TensorView& output : outputs) {
        size_t bytes = output.dtype == graft::DataType::kInt64 ? 8 : 4;
        for (const int64_t extent : output.shape) bytes *= static_cast<size_t>(extent);
        const auto* data = static_cast<const std::byte*>(output.data);
        all.emplace_back(data, data + (status.ok() ? bytes : 0));
      }
    }
  }
  return all;
}

TEST(Gpus, all_at_once_give_the_same_bits) {
  const int count = gpu_count();
  if (count < 2) GTEST_SKIP() << "there are " << count << " GPUs";
  std::vector<std::vector<Bytes>> results(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int gpu = 0; gpu < count; ++gpu) {
    threads.emplace_back([&, gpu] {
      for (const graft_test::TextNetwork& network : graft_test::kTextNetworks) {
        for (Bytes& answer : answers(network, fmt::format("cuda:{}", gpu))) results[gpu].push_back(std::move(answer));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int gpu = 1; gpu < count; ++gpu) EXPECT_EQ(results[gpu], results[0]) << "GPU " << gpu;
}

TEST(Gpus, a_run_leaves_the_caller_s_context_current) {
  if (gpu_count() < 1) GTEST_SKIP() << graft::why_no_cuda_device();
  graft::cuda::Handle before = nullptr, after = nullptr;
  driver().current_context(&before);
  for (const graft_test::TextNetwork& network : graft_test::kTextNetworks) answers(network, "cuda");
  driver().current_context(&after);
  EXPECT_EQ(after, before);
}

TEST(Gpus, one_that_is_not_there_is_an_error_with_the_number) {
  const int count = gpu_count();
  if (count < 1) GTEST_SKIP() << graft::why_no_cuda_device();
  try {
    answers(graft_test::kTextNetworks[0], fmt::format("cuda:{}", count));
    FAIL() << "a GPU beyond the last was opened";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find(fmt::format("there is no GPU {}: this machine has {}", count, count)),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
