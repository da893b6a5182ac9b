// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/spelling.h"

namespace graft {
namespace {

TEST(Spelling, finds_the_nearest_name) {
  const std::vector<std::string> names = {"compile", "check", "cache", "run"};
  EXPECT_EQ(nearest_name("compil", names), "compile");
  EXPECT_EQ(nearest_name("ocmpile", names), "compile") << "exchanged neighbours";
  EXPECT_EQ(nearest_name("cachee", names), "cache");
  EXPECT_EQ(nearest_name("rnu", names), "run");
  EXPECT_EQ(did_you_mean("chekc", names), "; did you mean 'check'?");
}

TEST(Spelling, says_nothing_when_none_is_near) {
  EXPECT_EQ(nearest_name("teleport", {"compile", "run"}), "");
  EXPECT_EQ(nearest_name("x", {"y"}), "") << "a letter is not the misspelling of another";
  EXPECT_EQ(nearest_name("", {"run"}), "");
  EXPECT_EQ(did_you_mean("teleport", {}), "");
}

}  // namespace
}  // namespace graft
