// SPDX-License-Identifier: Apache-2.0
// Small networks in each precision on emulated GPUs of two kinds: step by step, recorded and replayed; and the same
// bits whichever warp goes first.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "graft/graft.h"
#include "support/text_network.h"

namespace graft_test {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<float> input_of(const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
  std::vector<float> x(count);
  graft::Random random(count);
  for (float& value : x) value = static_cast<float>(random.uniform(-1, 1));
  return x;
}

/// What each output holds after each of `runs` runs.
std::vector<Bytes> answers(graft::Session& session, const TextNetwork& network, const std::vector<int64_t>& shape,
                           int runs) {
  std::vector<float> x = input_of(shape);
  std::vector<Bytes> all;
  for (int run = 0; run < runs; ++run) {
    std::vector<graft::TensorView> outputs;
    for (const std::string& name : network.outputs) outputs.push_back({.name = name});
    const graft::Status status = session.run({graft::view("x", x.data(), shape)}, outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) return {};
    for (const graft::TensorView& output : outputs) {
      size_t bytes = output.dtype == graft::DataType::kInt64 ? 8 : 4;
      for (const int64_t extent : output.shape) bytes *= static_cast<size_t>(extent);
      const auto* data = static_cast<const std::byte*>(output.data);
      all.emplace_back(data, data + bytes);
    }
  }
  return all;
}

/// The greatest difference of floats as a share of the largest.
double difference(const Bytes& expected, const Bytes& actual) {
  if (expected.size() != actual.size()) return HUGE_VAL;
  std::vector<float> a(expected.size() / 4), b(a.size());
  std::memcpy(a.data(), expected.data(), expected.size()), std::memcpy(b.data(), actual.data(), actual.size());
  double largest = 1e-30, apart = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(a[i])));
    const double difference = std::fabs(static_cast<double>(a[i]) - b[i]);
    apart = std::max(apart, std::isnan(difference) ? HUGE_VAL : difference);
  }
  return apart / largest;
}

struct Setting {
  const char *device, *precision;
  double tolerance;
};

class Networks : public testing::TestWithParam<Setting> {};

TEST_P(Networks, give_what_the_interpreter_gives) {
  const auto [device, precision, tolerance] = GetParam();
  for (const TextNetwork& network : kTextNetworks) {
    if (network.text == kPositives) continue;  // exact, and below
    const graft::Engine reference(compile_text(network.text, {{"mode", "interpret"}}));
    const graft::Engine engine(
        compile_text(network.text, {{"device", device}, {"precision", precision}, {"disable", "cublaslt,cudnn"}}));
    graft::Session expected(reference), session(engine);
    for (const std::vector<int64_t>& shape : network.shapes) {
      const Bytes wanted = answers(expected, network, shape, 1).at(0);
      for (const Bytes& got : answers(session, network, shape, 3)) EXPECT_LT(difference(wanted, got), tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(precisions, Networks,
                         testing::Values(Setting{"cuda:0", "fp32", 1e-5}, Setting{"cuda:0", "tf32", 5e-3},
                                         Setting{"cuda:0", "fp16", 8e-3}, Setting{"cuda:0", "bf16", 6e-2},
                                         Setting{"cuda:1", "fp32", 1e-5}, Setting{"cuda:1", "tf32", 5e-3},
                                         Setting{"cuda:1", "fp16", 8e-3}, Setting{"cuda:1", "bf16", 6e-2}),
                         [](const auto& row) {
                           const bool first = row.param.device == std::string_view("cuda:0");
                           return fmt::format("{}_on_{}", row.param.precision, first ? "sm_90a" : "sm_80");
                         });

/// All answers of all networks, with the order of warps drawn by a seed.
std::vector<Bytes> answers_by_seed(const char* seed, const char* precision) {
  setenv("GRAFT_EMULATOR_SEED", seed, 1);
  std::vector<Bytes> all;
  for (const TextNetwork& network : kTextNetworks) {
    const graft::Engine engine(
        compile_text(network.text, {{"device", "cuda"}, {"precision", precision}, {"disable", "cublaslt,cudnn"}}));
    graft::Session session(engine);
    for (const Bytes& answer : answers(session, network, network.shapes.back(), 2)) all.push_back(answer);
  }
  unsetenv("GRAFT_EMULATOR_SEED");
  return all;
}

TEST(Determinism, results_are_the_same_bits_whichever_warp_goes_first) {
  for (const char* precision : {"fp32", "fp16"}) {
    const std::vector<Bytes> first = answers_by_seed("1", precision);
    for (const char* seed : {"2", "3", "4"}) EXPECT_EQ(answers_by_seed(seed, precision), first) << precision;
  }
}

}  // namespace
}  // namespace graft_test
