// SPDX-License-Identifier: Apache-2.0
// Kernels from the module of the code generator: a caller can stop it.
#include "modules/kernel_source.h"

#include <gtest/gtest.h>

#include "base/error.h"

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

}  // namespace
}  // namespace graft
