// SPDX-License-Identifier: Apache-2.0
// Where a program lies is known however it was started.
#include "base/own_path.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace graft {
namespace {

namespace fs = std::filesystem;

TEST(OwnPath, is_the_file_of_this_program) { EXPECT_EQ(own_path(), fs::canonical("/proc/self/exe")); }

/// Runs this program again, found through PATH from another folder, with the tests that the filter names.
TEST(OwnPath, is_known_of_a_program_that_was_found_through_path) {
  const fs::path program = fs::canonical("/proc/self/exe");
  const std::string command =
      fmt::format("cd / && PATH='{}' {} --gtest_brief=1 --gtest_filter={}", program.parent_path().string(),
                  program.filename().string(), "OwnPath.is_the_file*:CudaLibrary.one_beside_the_current_folder*");
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

}  // namespace
}  // namespace graft
