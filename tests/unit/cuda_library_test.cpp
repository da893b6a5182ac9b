// SPDX-License-Identifier: Apache-2.0
// Opening NVIDIA's libraries: where they are looked for, and what is said when they are not there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/cuda_library.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

/// A folder that is CUDA_HOME while it lives.
class CudaHome {
 public:
  CudaHome() : path_(fs::temp_directory_path() / ("graft-cuda-home-" + std::to_string(getpid()))) {
    if (const char* before = std::getenv("CUDA_HOME")) before_ = before;
    fs::create_directories(path_ / "lib64");
    setenv("CUDA_HOME", path_.c_str(), 1);
  }
  ~CudaHome() {
    before_.empty() ? unsetenv("CUDA_HOME") : setenv("CUDA_HOME", before_.c_str(), 1);
    fs::remove_all(path_);
  }
  fs::path library(const char* name) const { return path_ / "lib64" / name; }

 private:
  fs::path path_;
  std::string before_;
};

TEST(CudaLibrary, one_that_is_nowhere_says_where_it_was_looked_for) {
  const CudaLibrary library = open_cuda_library("graftnosuch", {13, 12});
  EXPECT_EQ(library.handle, nullptr);
  EXPECT_EQ(library.missing.rfind("libgraftnosuch.so.13 or libgraftnosuch.so.12 is not found: looked in pip's", 0), 0u)
      << library.missing;
  EXPECT_EQ(library.find("anything"), nullptr);
}

TEST(CudaLibrary, a_file_that_does_not_open_is_named_with_the_loaders_words) {
  const CudaHome home;
  std::ofstream(home.library("libgraftbroken.so.13")) << "no library";
  const CudaLibrary library = open_cuda_library("graftbroken", {13, 12});
  EXPECT_EQ(library.handle, nullptr);
  EXPECT_EQ(library.missing.rfind("libgraftbroken.so.13 does not open: ", 0), 0u) << library.missing;
  EXPECT_NE(library.missing.find(home.library("libgraftbroken.so.13").string()), std::string::npos) << library.missing;
}

TEST(CudaLibrary, a_toolkit_of_the_users_own_is_found) {
  const CudaHome home;
  fs::path own;  // any library will do: the C library of this process
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("libc.so.6") != line.npos) own = line.substr(line.find('/'));
  }
  ASSERT_FALSE(own.empty());
  fs::create_symlink(own, home.library("libgraftlinked.so.12"));
  const CudaLibrary library = open_cuda_library("graftlinked", {13, 12});
  EXPECT_EQ(library.missing, "");
  EXPECT_EQ(library.path, home.library("libgraftlinked.so.12"));
  EXPECT_NE(library.find("strlen"), nullptr);
}

}  // namespace
}  // namespace graft
