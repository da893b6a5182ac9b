// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/sha256.h"

namespace graft {
namespace {

std::string of(const std::string& text) { return sha256(std::as_bytes(std::span(text))); }

TEST(Sha256, the_examples_of_its_standard) {
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(of(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, lengths_at_the_ends_of_blocks_differ) {
  std::string last;
  for (const size_t length : {54, 55, 56, 57, 63, 64, 65, 119, 120, 128}) {
    const std::string digits = of(std::string(length, 'x'));
    EXPECT_EQ(digits.size(), 64U);
    EXPECT_NE(digits, last) << length;
    last = digits;
  }
  EXPECT_EQ(of(std::string(64, 'x')), "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
}

}  // namespace
}  // namespace graft
