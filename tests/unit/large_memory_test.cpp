// SPDX-License-Identifier: Apache-2.0
// Memory for weights: aligned, writable to its end, and refused with the size where the machine has less.
#include "base/large_memory.h"

#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"

namespace graft {
namespace {

TEST(LargeMemory, is_aligned_and_can_be_written_to_its_end) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{65}, int64_t{4} << 20, (int64_t{9} << 20) + 17}) {
    const std::shared_ptr<std::byte> memory = large_memory(bytes, "weights");
    const int64_t alignment = bytes < int64_t{4} << 20 ? 64 : int64_t{2} << 20;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % static_cast<uintptr_t>(alignment), 0U) << bytes;
    std::memset(memory.get(), 1, static_cast<size_t>(bytes));
  }
}

TEST(LargeMemory, that_the_machine_has_not_is_an_error_that_says_what_it_is_for) {
  for (const int64_t bytes : {int64_t{1} << 60, std::numeric_limits<int64_t>::max()}) {
    try {
      large_memory(bytes, "packed weights");
      FAIL() << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
      EXPECT_NE(error.message().find("packed weights"), std::string::npos) << error.message();
    }
  }
}

TEST(LargeMemory, advice_takes_any_range) {
  prefer_huge_pages(nullptr, 0);
  std::vector<std::byte> small(100);
  prefer_huge_pages(small.data(), 100);
  std::vector<std::byte> large(size_t{7} << 20);
  prefer_huge_pages(large.data() + 3, (int64_t{7} << 20) - 3);
  EXPECT_EQ(large.back(), std::byte{0});
}

}  // namespace
}  // namespace graft
