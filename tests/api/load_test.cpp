// SPDX-License-Identifier: Apache-2.0
// What is chosen when a plan is loaded: its device and its threads.
#include <gtest/gtest.h>

#include <sched.h>

#include <cstring>
#include <string>

#include "graft/graft.h"
#include "plan/temporary_directory.h"
#include "support/text_network.h"

namespace {

class Load : public testing::Test {
 protected:
  void SetUp() override {
    graft::Engine(graft_test::compile_text(graft_test::kMlp, {{"threads", "4096"}, {"tune", "off"}})).save(plan_);
  }
  /// The threads of the plan when it is loaded with a choice.
  static std::string threads_of(const graft::Engine& engine) {
    const std::string text(engine.describe());
    const size_t at = text.find("\"threads\":");
    return text.substr(at, text.find_first_of(",}", at) - at);
  }
  graft_status load(std::initializer_list<graft_option> options, graft_error& error) const {
    graft_engine* engine = nullptr;
    const graft_status status = graft_load_with(plan_.c_str(), options.begin(), options.size(), &engine, &error);
    graft_engine_release(engine);
    return status;
  }

  graft::TemporaryDirectory folder_;
  std::string plan_ = folder_ / "plan.graft";
};

TEST_F(Load, threads_are_those_that_are_chosen_or_as_many_as_are_here) {
  cpu_set_t processors;
  ASSERT_EQ(sched_getaffinity(0, sizeof processors, &processors), 0);
  const std::string chosen = threads_of(graft::load(plan_, "cpu", 3)), recorded = threads_of(graft::load(plan_));
  EXPECT_NE(chosen.find("3"), chosen.npos) << chosen;
  const size_t digit = recorded.find_first_of("0123456789");
  ASSERT_NE(digit, recorded.npos) << recorded;
  EXPECT_LE(std::stoi(recorded.substr(digit)), CPU_COUNT(&processors)) << recorded;
}

TEST_F(Load, what_a_plan_has_already_is_refused) {
  graft_error error;
  EXPECT_EQ(load({{"device", "cpu"}, {"threads", "1"}}, error), GRAFT_OK);
  EXPECT_EQ(load({{"tune", "off"}}, error), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(error.message, "chosen when a plan is compiled"), nullptr) << error.message;
  EXPECT_EQ(load({{"threads", "-1"}}, error), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(load({{"device", "tpu"}}, error), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(load({{"device", nullptr}}, error), GRAFT_INVALID_ARGUMENT);
}

TEST_F(Load, the_device_is_what_the_plan_was_made_for_unless_it_is_chosen) {
  graft_error error;
  for (const char* device : {"auto", "cpu"}) EXPECT_EQ(load({{"device", device}}, error), GRAFT_OK) << error.message;
  graft_engine* engine = nullptr;
  ASSERT_EQ(graft_load(plan_.c_str(), &engine, &error), GRAFT_OK) << error.message;
  EXPECT_STREQ(graft_engine_device(engine), "cpu");
  graft_engine_release(engine);
  EXPECT_STREQ(graft_engine_device(nullptr), "");
}

TEST(CheckOptions, choices_are_understood_or_named_before_there_is_a_model) {
  graft_error error;
  const graft_option right[] = {{"precision", "fp16"}, {"dim", "batch=1:8:64"}, {"shape", "a:2x4,b:2x4"}};
  EXPECT_EQ(graft_check_options(right, 3, &error), GRAFT_OK);
  EXPECT_EQ(graft_check_options(nullptr, 0, &error), GRAFT_OK);
  for (const graft_option wrong : {graft_option{"precison", "fp16"}, graft_option{"precision", "fp7"},
                                   graft_option{"shape", "a:2x4,a:2x4"}, graft_option{"tune", nullptr}}) {
    EXPECT_EQ(graft_check_options(&wrong, 1, &error), GRAFT_INVALID_ARGUMENT) << wrong.key;
  }
}

}  // namespace
