// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/words.h"

namespace graft {
namespace {

using Words = std::vector<std::string>;

TEST(Words, stand_between_commas) {
  EXPECT_EQ(words_of("a,bc,d e"), (Words{"a", "bc", "d e"}));
  EXPECT_EQ(words_of("alone"), Words{"alone"});
}

TEST(Words, are_none_where_nothing_stands) {
  EXPECT_EQ(words_of(""), Words{});
  EXPECT_EQ(words_of(","), Words{});
  EXPECT_EQ(words_of(",a,,b,"), (Words{"a", "b"}));
}

}  // namespace
}  // namespace graft
