// SPDX-License-Identifier: Apache-2.0
// Writes to GRAFT_FAULT_REACH.txt which faults each test reaches: `name milliseconds numbers...`. What runs before the
// first test counts for all of them, under the name `*`.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "base/fault_switch.h"

namespace {

class ReachListener : public testing::EmptyTestEventListener {
 public:
  explicit ReachListener(const std::string& path) : file_(path, std::ios::app) {}

  void OnTestProgramStart(const testing::UnitTest&) override { write("*", 0); }
  void OnTestEnd(const testing::TestInfo& test) override {
    write(std::string(test.test_suite_name()) + "." + test.name(), test.result()->elapsed_time());
  }

 private:
  void write(const std::string& name, long long milliseconds) {
    file_ << name << " " << milliseconds;
    for (int number = 0; number < 1 << 16; ++number) {
      if (graft_reached_faults[number]) file_ << " " << number;
    }
    file_ << std::endl;
    std::memset(graft_reached_faults, 0, 1 << 16);
  }

  std::ofstream file_;
};

const bool listening = [] {
  const char* path = std::getenv("GRAFT_FAULT_REACH");
  if (path) testing::UnitTest::GetInstance()->listeners().Append(new ReachListener(std::string(path) + ".txt"));
  return path != nullptr;
}();

}  // namespace
