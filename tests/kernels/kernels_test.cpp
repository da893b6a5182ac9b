// SPDX-License-Identifier: Apache-2.0
// The kernels of the test networks compile for the GPUs that Graft names, and those of all the operators' samples for
// one of them, with the newest NVRTC; the oldest that is supported compiles some samples of each operator. No GPU is
// needed. Spills are listed, since they cost time.
#include <algorithm>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/collect.h"
#include "kernels/compiler.h"
#include "support/test_root.h"

namespace graft::kernels {
namespace {

constexpr int kBatches[] = {1, 32};  // the second for one architecture
constexpr const char* kPrecisions[] = {"fp32", "fp16"};
constexpr const char* kThorough = "sm_90a";
constexpr int kSpillsShown = 20;
constexpr int kSamplesForTheOldest = 4;  // of an operator: it has to know the same language, that the newest is held to

/// Floats of one byte have no CUDA kernels: their steps run in the interpreter and say why.
bool has_float_of_a_byte(const std::string& program) { return program.find(": f8e") != program.npos; }

void print_spills(std::vector<Spill> spills, const Programs& programs) {
  const auto more = [](const Spill& a, const Spill& b) { return a.stored_bytes > b.stored_bytes; };
  std::sort(spills.begin(), spills.end(), more);
  for (size_t i = 0; i < std::min<size_t>(spills.size(), kSpillsShown); ++i) {
    fmt::print("  {} of {}: {} bytes stored, {} loaded\n", spills[i].kernel,
               programs.by_name.at(spills[i].kernel).origin, spills[i].stored_bytes, spills[i].loaded_bytes);
  }
}

/// Compiles, prints what came of it, and fails for each kernel that was rejected.
void compile(const Compiler& compiler, const Programs& programs, const std::string& target, std::string_view what,
             bool quick) {
  const Outcome outcome = compiler.compile(programs, target, quick);
  int refused = 0;
  for (const Rejected& kernel : outcome.rejected) {
    const Programs::Program& program = programs.by_name.at(kernel.kernel);
    const bool expected = kernel.by_generator && has_float_of_a_byte(program.text);
    EXPECT_TRUE(expected) << kernel.kernel << " of " << program.origin << ": " << kernel.reason << "\n" << program.text;
    refused += expected;
  }
  for (const Starved& kernel : outcome.starved) {
    ADD_FAILURE() << kernel.kernel << " of " << programs.by_name.at(kernel.kernel).origin << ": a block has "
                  << kernel.has << " registers, its warps want " << kernel.wants;
  }
  fmt::print(
      "{}, {} for {}: {} kernels ({} before equal ones are one) in {} units, {:.1f} s; {} rejected, {} have no "
      "CUDA form (floats of a byte), {}\n",
      compiler.version(), what, target, outcome.kernels, programs.asked, outcome.units, outcome.seconds,
      outcome.rejected.size() - refused, refused,
      quick ? "compiled quickly: see sm_90a for spills" : fmt::format("{} spill", outcome.spills.size()));
  print_spills(outcome.spills, programs);
  std::fflush(stdout);
  EXPECT_GT(outcome.kernels, 0);
}

bool compiler_is_missing(const Compiler& compiler) { return compiler.version().find("no NVRTC") != std::string::npos; }

/// pip's NVRTC 12.4, or empty.
std::string oldest_nvrtc() {
  for (const char* version : {"3.11", "3.12", "3.13"}) {
    const std::string folder = std::filesystem::path(test_python()).parent_path().parent_path().string() +
                               fmt::format("/lib/python{}/site-packages/nvidia/cuda_nvrtc/lib", version);
    if (std::filesystem::exists(folder + "/libnvrtc-builtins.so.12.4")) return folder;
  }
  return "";
}

class NetworkKernels : public testing::TestWithParam<const char*> {};

TEST_P(NetworkKernels, compile) {
  const Compiler compiler;
  if (compiler_is_missing(compiler)) GTEST_SKIP() << "NVRTC was not found: ./dev test installs it";
  Programs programs;
  for (const Network& network : test_networks()) {
    for (const int batch : kBatches) {
      if (batch > 1 && GetParam() != std::string_view(kThorough)) continue;
      for (const char* precision : kPrecisions) collect_network(network, batch, precision, GetParam(), programs);
    }
  }
  // The other architectures are to accept the same source; code as it would run, and its spills, is made for one.
  compile(compiler, programs, GetParam(), "networks", GetParam() != std::string_view(kThorough));
}

INSTANTIATE_TEST_SUITE_P(targets, NetworkKernels, testing::Values("sm_80", "sm_90a", "sm_120"),
                         [](const testing::TestParamInfo<const char*>& info) { return std::string(info.param); });

TEST(SampleKernels, compile_with_the_newest_nvrtc) {
  const Compiler compiler;
  if (compiler_is_missing(compiler)) GTEST_SKIP() << "NVRTC was not found: ./dev test installs it";
  Programs programs;
  collect_samples("sm_90a", std::numeric_limits<int>::max(), programs);
  compile(compiler, programs, "sm_90a", "samples", false);
}

TEST(SampleKernels, compile_with_the_oldest_nvrtc) {
  const std::string folder = oldest_nvrtc();
  if (folder.empty()) GTEST_SKIP() << "NVRTC 12.4 is not in the project's Python folder: ./dev test installs it";
  const Compiler compiler(folder);
  ASSERT_NE(compiler.version().find("NVRTC 12.4"), std::string::npos) << compiler.version();
  Programs programs;
  collect_samples("sm_90a", kSamplesForTheOldest, programs);
  compile(compiler, programs, "sm_90a", "samples", true);
}

}  // namespace
}  // namespace graft::kernels
