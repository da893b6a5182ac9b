// SPDX-License-Identifier: Apache-2.0
// Saving where it cannot be done: the error names the place, and the file that was there stays.
#include <gtest/gtest.h>

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "graft/graft_c.h"
#include "plan/temporary_directory.h"
#include "support/text_network.h"

namespace {

constexpr int kNotPossibleHere = 77;

class Save : public testing::Test {
 protected:
  void SetUp() override { engine_ = graft_test::compile_text(graft_test::kMlp, {{"threads", "1"}}); }
  void TearDown() override { graft_engine_release(engine_); }

  /// Saves to `path`, which must fail with an error that names it.
  bool fails_at(const std::string& path, graft_status expected = GRAFT_INVALID_ARGUMENT) const {
    graft_error error;
    const graft_status status = graft_engine_save(engine_, path.c_str(), &error);
    if (status != expected) return false;
    std::fprintf(stderr, "%s\n", error.message);
    return std::strstr(error.message, path.c_str()) != nullptr;
  }

  graft_engine* engine_ = nullptr;
};

/// The exit status of `body` in a process of its own.
int in_a_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(Save, a_full_file_system_keeps_the_old_plan) {
  const graft::TemporaryDirectory folder;
  const int status = in_a_child([&] {
    // A mount of this child's own: as root, or as the root of a user namespace where that is allowed.
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return kNotPossibleHere;
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kNotPossibleHere;
    if (mount("graft-test", folder.path().c_str(), "tmpfs", 0, "size=16k") != 0) return kNotPossibleHere;
    const std::string path = folder / "old.graft", old(1000, 'x');
    std::ofstream(path, std::ios::binary) << old;
    if (!fails_at(path, GRAFT_DEVICE)) return 1;
    if (contents(path) != old) return 2;
    return folder.file_count() == 1 ? 0 : 3;
  });
  if (status == kNotPossibleHere) GTEST_SKIP() << "this user may not mount a file system";
  EXPECT_EQ(status, 0);
}

TEST_F(Save, a_read_only_folder_keeps_the_old_plan) {
  const graft::TemporaryDirectory folder;
  const std::string path = folder / "old.graft";
  graft_error error;
  ASSERT_EQ(graft_engine_save(engine_, path.c_str(), &error), GRAFT_OK) << error.message;
  const std::string old = contents(path);
  ASSERT_EQ(chmod(folder.path().c_str(), 0555), 0);
  const int status = in_a_child([&] {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && (setegid(kNobody) != 0 || seteuid(kNobody) != 0)) return kNotPossibleHere;
    if (!fails_at(path) || !fails_at(folder / "new.graft")) return 1;
    return folder.file_count() == 1 ? 0 : 3;
  });
  chmod(folder.path().c_str(), 0700);
  if (status == kNotPossibleHere) GTEST_SKIP() << "root may write everywhere, and cannot be another user";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(contents(path), old);
}

TEST_F(Save, places_that_are_no_files_are_refused) {
  const graft::TemporaryDirectory folder;
  EXPECT_TRUE(fails_at(folder.path()));
  EXPECT_TRUE(fails_at(folder / "absent/new.graft"));
  EXPECT_TRUE(fails_at(folder / std::string(300, 'n')));
  EXPECT_EQ(folder.file_count(), 0u);
  graft_error error;
  EXPECT_EQ(graft_engine_save(engine_, nullptr, &error), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_engine_save(nullptr, "x", &error), GRAFT_INVALID_ARGUMENT);
}

}  // namespace
