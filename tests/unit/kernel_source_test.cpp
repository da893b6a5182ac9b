// SPDX-License-Identifier: Apache-2.0
// Kernels from the module of the code generator: a caller can stop it.
#include "modules/kernel_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "fuse/fused_program.h"
#include "graph/infer.h"
#include "plan/build_engine.h"

namespace graft {
namespace {

constexpr const char* kPrograms = R"(program twice_as_much {
  sizes n
  global x: f32[n] strides [1]
  global y: f32[n] strides [1] written
  body {
    map [i0 < size(n)] { y[i0] = mul(2:f32, x[i0]) }
  }
})";

class KernelSource : public testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = why_no_generator(target_);
    if (!missing.empty()) GTEST_SKIP() << missing;
  }

  Target target_ = find_target("portable", 1);
};

TEST_F(KernelSource, a_caller_who_says_stop_gets_a_cancelled_error) {
  // Twice: what was stopped is not in the cache.
  for (int attempt = 0; attempt < 2; ++attempt) {
    int asked = 0;
    try {
      interruptible_kernel_code(kPrograms, target_, [&](std::string_view) { return ++asked > 0; });
      ADD_FAILURE() << "it was not stopped";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCancelled) << error.what();
    }
    EXPECT_EQ(asked, 1);
  }
}

TEST_F(KernelSource, what_a_callback_throws_comes_out) {
  const auto give_up = [](std::string_view) -> bool { throw std::runtime_error("enough"); };
  EXPECT_THROW(interruptible_kernel_code(kPrograms, target_, give_up), std::runtime_error);
}

/// The tile program of x + x, doubled again and again: a tree of it would have 2^60 sums.
std::string doubled_program(const Target& target) {
  std::string text = "graph \"main\" {\n  opset \"\" 28\n  input %v0: f32[n, 33]\n";
  for (int i = 0; i < 60; ++i) text += fmt::format("  %v{}: ? = Add \"n{}\" (%v{}, %v{})\n", i + 1, i, i, i);
  Graph graph = parse_graph(text + "  output %v60\n}\n");
  infer_types(graph);
  BuildOptions build{.target = target};
  build.compile_kernels = [](const std::string&, const Target&) { return std::vector<std::byte>(1); };
  return build_engine(fuse(graph), build).engine.kernels.at(0).program;
}

TEST(SharedValues, are_computed_once_on_each_machine) {
  int tried = 0;
  for (const char* name : {"portable", "sm_90a"}) {
    const Target target = find_target(name, 1);
    if (!why_no_generator(target).empty()) continue;
    ++tried;
    EXPECT_LT(kernel_source_text(doubled_program(target), target).size(), 1000000u) << name;
  }
  if (tried == 0) GTEST_SKIP() << "this build generates no code";
}

}  // namespace
}  // namespace graft
