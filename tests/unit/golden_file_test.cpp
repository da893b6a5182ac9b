// SPDX-License-Identifier: Apache-2.0
// Golden files are compared, and renewed where GRAFT_UPDATE_GOLDEN is set.
#include "support/golden_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace graft::golden {
namespace {

/// A file of two cases in a folder of its own, and whether golden files are renewed.
class GoldenFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "graft-golden-XXXXXX").string();
    ASSERT_TRUE(mkdtemp(folder.data()));
    folder_ = folder;
    path_ = folder_ / "cases.graft";
    std::ofstream(path_) << "// heading\n\n// case: Abs\nin\n// expect\nold\n\n// case: Neg\n// expect\n";
    if (const char* set = std::getenv("GRAFT_UPDATE_GOLDEN")) before_ = set;
    unsetenv("GRAFT_UPDATE_GOLDEN");
  }
  void TearDown() override {
    unsetenv("GRAFT_UPDATE_GOLDEN");
    if (!before_.empty()) setenv("GRAFT_UPDATE_GOLDEN", before_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Case& c : read(path_).cases) names.push_back(c.name);
    return names;
  }

  std::filesystem::path folder_, path_;
  std::string before_;
};

TEST_F(GoldenFileTest, keeps_its_cases_when_it_is_compared) {
  EXPECT_TRUE(has_case(path_, "Abs"));
  EXPECT_FALSE(has_case(path_, "Cos"));
  check(path_, "Abs", [](const File&, const Case&) { return std::string("old\n"); });
  EXPECT_EQ(names(), (std::vector<std::string>{"Abs", "Neg"}));
}

TEST_F(GoldenFileTest, takes_a_new_case_in_order_of_names_when_it_is_renewed) {
  setenv("GRAFT_UPDATE_GOLDEN", "1", 1);
  EXPECT_TRUE(has_case(path_, "Cos", "operator Cos\n"));
  EXPECT_TRUE(has_case(path_, "Sin"));
  EXPECT_TRUE(has_case(path_, "Cos"));
  EXPECT_EQ(names(), (std::vector<std::string>{"Abs", "Cos", "Neg", "Sin"}));
  EXPECT_EQ(read(path_).cases.at(1).input, "operator Cos\n");
}

TEST_F(GoldenFileTest, expects_what_there_is_when_it_is_renewed) {
  setenv("GRAFT_UPDATE_GOLDEN", "1", 1);
  check(path_, "Abs", [](const File&, const Case&) { return std::string("new\n"); });
  EXPECT_EQ(read(path_).cases.at(0).expectation, "new\n");
  EXPECT_EQ(read(path_).heading, "// heading\n");
}

}  // namespace
}  // namespace graft::golden
