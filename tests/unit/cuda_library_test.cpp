// SPDX-License-Identifier: Apache-2.0
// Opening NVIDIA's libraries: where they are looked for, and what is said when they are not there.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/cuda_library.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

/// Sets a variable of the environment while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_.empty() ? unsetenv(name_) : setenv(name_, before_.c_str(), 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
};

/// A folder that is removed at the end.
class Folder {
 public:
  explicit Folder(const std::string& name) : path_(fs::temp_directory_path() / (name + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// A folder that is CUDA_HOME while it lives.
class CudaHome {
 public:
  CudaHome() : folder_("graft-cuda-home-"), variable_("CUDA_HOME", folder_.path()) {
    fs::create_directories(folder_.path() / "lib64");
  }
  fs::path library(const char* name) const { return folder_.path() / "lib64" / name; }

 private:
  Folder folder_;
  Variable variable_;
};

/// The file of a library that this process has open.
fs::path file_of(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(name) != line.npos) return line.substr(line.find('/'));
  }
  return {};
}

/// Puts any library there under that name: the C library of this process.
void put_library(const fs::path& file) {
  fs::create_directories(file.parent_path());
  fs::create_symlink(file_of("libc.so.6"), file);
}

/// A virtual environment with a python3, whose packages hold a library of NVIDIA's.
void make_environment(const fs::path& root, const char* library) {
  fs::create_directories(root / "bin");
  std::ofstream(root / "pyvenv.cfg") << "home = /usr/bin\ninclude-system-site-packages = false\n";
  std::ofstream(root / "bin/python3") << "#!/bin/sh\n";
  fs::permissions(root / "bin/python3", fs::perms::owner_all);
  put_library(root / "lib/python3.12/site-packages/nvidia/some/lib" / library);
}

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
  put_library(home.library("libgraftlinked.so.12"));
  const CudaLibrary library = open_cuda_library("graftlinked", {13, 12});
  EXPECT_EQ(library.missing, "");
  EXPECT_EQ(library.path, home.library("libgraftlinked.so.12"));
  EXPECT_NE(library.find("strlen"), nullptr);
}

TEST(CudaLibrary, packages_of_the_first_python_in_the_path_come_before_a_toolkit) {
  const CudaHome home;
  put_library(home.library("libgraftpacked.so.13"));
  const Folder folder("graft-python-");
  const fs::path first = folder.path() / "first", second = folder.path() / "second";
  make_environment(first, "libgraftother.so.13");
  make_environment(second, "libgraftpacked.so.13");
  const Variable path(
      "PATH", (folder.path() / "nothing").string() + ":" + (first / "bin").string() + ":" + (second / "bin").string());
  EXPECT_EQ(open_cuda_library("graftpacked", {13}).path, home.library("libgraftpacked.so.13")) << "it is not the first";
  const Variable found("PATH", (second / "bin").string() + ":" + (first / "bin").string());
  EXPECT_EQ(open_cuda_library("graftpacked", {13}).path,
            second / "lib/python3.12/site-packages/nvidia/some/lib/libgraftpacked.so.13");
}

TEST(CudaLibrary, an_environment_that_sees_the_packages_below_it_has_theirs_too) {
  const Folder folder("graft-below-");
  const fs::path below = folder.path() / "below", above = folder.path() / "above";
  make_environment(below, "libgraftbelow.so.13");
  make_environment(above, "libgraftabove.so.13");
  const Variable path("PATH", (above / "bin").string());
  EXPECT_EQ(open_cuda_library("graftbelow", {13}).handle, nullptr);
  std::ofstream(above / "pyvenv.cfg") << "home = " << (below / "bin").string()
                                      << "\ninclude-system-site-packages = true\n";
  EXPECT_EQ(open_cuda_library("graftbelow", {13}).path,
            below / "lib/python3.12/site-packages/nvidia/some/lib/libgraftbelow.so.13");
}

TEST(CudaLibrary, the_virtual_environment_that_is_active_comes_first) {
  const Folder folder("graft-active-");
  const fs::path active = folder.path() / "active", other = folder.path() / "other";
  make_environment(active, "libgraftactive.so.13");
  make_environment(other, "libgraftactive.so.13");
  const Variable path("PATH", (other / "bin").string());
  const Variable variable("VIRTUAL_ENV", active.string());
  EXPECT_EQ(open_cuda_library("graftactive", {13}).path,
            active / "lib/python3.12/site-packages/nvidia/some/lib/libgraftactive.so.13");
}

TEST(CudaLibrary, what_it_opens_later_by_name_is_opened_from_its_folder) {
  // Stands for libnvrtc-builtins: a part of glibc that this program does without.
  constexpr const char* kCompanion = "libanl.so.1";
  const fs::path companion = file_of("libc.so.6").parent_path() / kCompanion;
  if (!fs::exists(companion)) GTEST_SKIP() << companion << " is not installed";
  ASSERT_EQ(dlopen(kCompanion, RTLD_NOW | RTLD_NOLOAD), nullptr);
  const CudaHome home;
  put_library(home.library("libgraftwhole.so.13"));
  fs::create_symlink(companion, home.library("libgraftwhole-builtins.so.13.0"));
  ASSERT_NE(open_cuda_library("graftwhole", {13}).handle, nullptr);
  EXPECT_NE(dlopen(kCompanion, RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST(CudaLibrary, one_beside_the_current_folder_is_not_taken) {
  const Folder folder("graft-current-");
  put_library(folder.path() / "nvidia/some/lib/libgraftstray.so.13");
  fs::create_directories(folder.path() / "bin");
  const fs::path before = fs::current_path();
  fs::current_path(folder.path() / "bin");
  const CudaLibrary library = open_cuda_library("graftstray", {13});
  fs::current_path(before);
  EXPECT_EQ(library.handle, nullptr) << library.path;
}

TEST(CudaLibrary, one_that_the_process_has_open_is_taken_as_it_is) {
  const CudaHome home;
  put_library(home.library("libstdc++.so.6"));
  const CudaLibrary library = open_cuda_library("stdc++", {6});
  EXPECT_EQ(fs::canonical(library.path), fs::canonical(file_of("libstdc++.so.6")));
  EXPECT_NE(library.handle, nullptr);
}

}  // namespace
}  // namespace graft
