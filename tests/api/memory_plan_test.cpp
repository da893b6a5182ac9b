// SPDX-License-Identifier: Apache-2.0
// Plans in memory: what another file holds is the plan that would be a file of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "graft/graft_c.h"
#include "plan/temporary_directory.h"
#include "support/text_network.h"

namespace {

/// Memory at a chosen distance from an address that is a multiple of 64.
class Memory {
 public:
  explicit Memory(const std::string& bytes, size_t offset) : room_(bytes.size() + 128) {
    begin_ = room_.data() + (64 - reinterpret_cast<uintptr_t>(room_.data()) % 64) + offset;
    std::memcpy(begin_, bytes.data(), bytes.size());
  }
  char* begin() { return begin_; }
  void wipe(size_t count) { std::memset(begin_, 0, count); }

 private:
  std::vector<char> room_;
  char* begin_ = nullptr;
};

class PlanInMemory : public testing::Test {
 protected:
  void SetUp() override {
    engine_ = graft_test::compile_text(graft_test::kMlp, {{"threads", "1"}, {"tune", "off"}});
    const auto allocate = [](void* context, size_t count) -> void* {
      static_cast<std::string*>(context)->resize(count);
      return static_cast<std::string*>(context)->data();
    };
    graft_error error;
    ASSERT_EQ(graft_engine_save_bytes(engine_, allocate, &plan_, &error), GRAFT_OK) << error.message;
  }
  void TearDown() override { graft_engine_release(engine_); }

  static std::string description(graft_engine* engine) { return graft_engine_describe(engine); }

  graft_engine* engine_ = nullptr;
  std::string plan_;
};

TEST_F(PlanInMemory, it_is_what_a_file_would_be) {
  const graft::TemporaryDirectory folder;
  const std::string path = folder / "plan.graft";
  ASSERT_EQ(graft_engine_save(engine_, path.c_str(), nullptr), GRAFT_OK);
  std::ifstream file(path, std::ios::binary);
  EXPECT_EQ(plan_, std::string(std::istreambuf_iterator<char>(file), {}));
  graft_error error;
  const auto refuse = [](void*, size_t) -> void* { return nullptr; };
  EXPECT_EQ(graft_engine_save_bytes(engine_, refuse, nullptr, &error), GRAFT_OUT_OF_MEMORY);
}

TEST_F(PlanInMemory, it_is_used_where_it_lies_until_the_engine_goes_or_copied) {
  for (const size_t offset : {size_t{0}, size_t{4}}) {
    for (const bool owned : {true, false}) {
      Memory memory(plan_, offset);
      std::atomic<int> released = 0;
      graft_engine* engine = nullptr;
      graft_error error;
      const auto release = [](void* context) { ++*static_cast<std::atomic<int>*>(context); };
      ASSERT_EQ(graft_load_bytes(memory.begin(), plan_.size(), owned ? +release : nullptr, &released, nullptr, 0,
                                 &engine, &error), GRAFT_OK) << error.message;
      const bool in_place = owned && offset == 0;
      EXPECT_EQ(released, owned && !in_place ? 1 : 0) << offset;
      if (!in_place) memory.wipe(plan_.size());  // nobody reads it any more
      EXPECT_EQ(description(engine), description(engine_));
      graft_engine_release(engine);
      EXPECT_EQ(released, owned ? 1 : 0) << offset;
    }
  }
}

TEST_F(PlanInMemory, damaged_bytes_and_choices_of_compiling_are_errors_and_the_memory_is_given_back) {
  std::string damaged = plan_;
  std::fill(damaged.begin() + static_cast<std::ptrdiff_t>(damaged.size() / 2), damaged.end(), 0);
  std::atomic<int> released = 0;
  const auto release = [](void* context) { ++*static_cast<std::atomic<int>*>(context); };
  graft_engine* engine = nullptr;
  graft_error error;
  Memory bad(damaged, 0), good(plan_, 0);
  EXPECT_EQ(graft_load_bytes(bad.begin(), damaged.size(), release, &released, nullptr, 0, &engine, &error),
            GRAFT_INVALID_MODEL);
  EXPECT_NE(std::strstr(error.message, "plan in memory"), nullptr) << error.message;
  for (const graft_option option : {graft_option{"weights", "mapped"}, {"tune", "off"}}) {
    EXPECT_EQ(graft_load_bytes(good.begin(), plan_.size(), release, &released, &option, 1, &engine, &error),
              GRAFT_INVALID_ARGUMENT) << option.key;
  }
  EXPECT_EQ(released, 3);
}

}  // namespace
