// SPDX-License-Identifier: Apache-2.0
// Where writing to a path leads: links, devices, open files of the process, and what killed writers leave.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/file.h"
#include "plan/temporary_directory.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

/// The kind of the error that writing there ends with; the test fails when there is none.
ErrorKind kind_of_failure(const std::string& path, WriteOptions options = {}) {
  try {
    write_file(path, "new", options);
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << path << " was written";
  return ErrorKind::kInternal;
}

TEST(OutputFile, writes_through_links_and_leaves_them) {
  const TemporaryDirectory folder;
  fs::create_directory(folder / "deep");
  write_file(folder / "deep/target", "old");
  fs::create_symlink("deep/target", folder / "near");
  fs::create_symlink(folder / "near", folder / "far");
  write_file(folder / "far", "new");
  EXPECT_EQ(read_text_file(folder / "deep/target"), "new");
  EXPECT_TRUE(fs::is_symlink(folder / "near") && fs::is_symlink(folder / "far"));
  fs::create_symlink("deep/later", folder / "dangling");
  write_file(folder / "dangling", "new");
  EXPECT_EQ(read_text_file(folder / "deep/later"), "new");
  EXPECT_TRUE(fs::is_symlink(folder / "dangling"));
  EXPECT_EQ(folder.file_count(), 4u);
}

TEST(OutputFile, links_are_refused_where_they_may_not_be_followed) {
  const TemporaryDirectory folder;
  write_file(folder / "target", "old");
  fs::create_symlink("target", folder / "link");
  EXPECT_EQ(kind_of_failure(folder / "link", {.follow_links = false}), ErrorKind::kInvalidArgument);
  EXPECT_EQ(read_text_file(folder / "target"), "old");
}

TEST(OutputFile, a_circle_of_links_ends) {
  const TemporaryDirectory folder;
  fs::create_symlink("b", folder / "a");
  fs::create_symlink("a", folder / "b");
  EXPECT_EQ(kind_of_failure(folder / "a"), ErrorKind::kInvalidArgument);
  EXPECT_EQ(folder.file_count(), 2u);
}

TEST(OutputFile, dumps_follow_no_links) {
  const TemporaryDirectory folder;
  write_file(folder / "target", "old");
  fs::create_symlink("target", folder / "fuse.region.txt");
  Environment environment;
  environment.dump_directory = folder.path();
  EXPECT_THROW(write_dump(environment, "region", "fuse", "text"), Error);
  EXPECT_EQ(read_text_file(folder / "target"), "old");
  write_dump(environment, "region", "other", "text");
  EXPECT_EQ(read_text_file(folder / "other.region.txt"), "text\n");
}

TEST(OutputFile, what_is_no_regular_file_is_written_as_it_is) {
  const TemporaryDirectory folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  fs::create_symlink("fifo", folder / "link");
  std::string received(3, '\0');
  std::thread reader([&] {
    const int descriptor = ::open(fifo.c_str(), O_RDONLY);
    EXPECT_EQ(::read(descriptor, received.data(), 3), 3);
    ::close(descriptor);
  });
  write_file(folder / "link", "new");
  reader.join();
  EXPECT_EQ(received, "new");
  struct stat status;
  ASSERT_EQ(::lstat(fifo.c_str(), &status), 0);
  EXPECT_TRUE(S_ISFIFO(status.st_mode));
  fs::create_symlink("/dev/null", folder / "nothing");
  write_file(folder / "nothing", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "nothing"));
  fs::create_symlink("/dev/full", folder / "full");
  EXPECT_EQ(kind_of_failure(folder / "full"), ErrorKind::kDevice);
  EXPECT_TRUE(fs::is_character_file("/dev/full") && fs::is_character_file("/dev/null"));
}

TEST(OutputFile, open_files_of_the_process_go_on_where_they_are) {
  const TemporaryDirectory folder;
  const int descriptor = ::open((folder / "log").c_str(), O_CREAT | O_WRONLY, 0600);
  ASSERT_EQ(::write(descriptor, "old", 3), 3);
  write_file("/proc/self/fd/" + std::to_string(descriptor), "new");
  write_file("/dev/fd/" + std::to_string(descriptor), "er");
  ASSERT_EQ(::write(descriptor, ".", 1), 1);
  ::close(descriptor);
  EXPECT_EQ(read_text_file(folder / "log"), "oldnewer.");
  EXPECT_EQ(folder.file_count(), 1u);
}

TEST(OutputFile, what_a_killed_writer_left_goes_with_the_next) {
  const TemporaryDirectory folder;
  write_file(folder / "plan", "old");
  write_file(folder / ".plan.graft-0.tmp", "half");
  write_file(folder / ".plan.graft-1.tmp", "of a living writer");
  const int living = ::open((folder / ".plan.graft-1.tmp").c_str(), O_WRONLY);
  ASSERT_EQ(::flock(living, LOCK_EX), 0);
  write_file(folder / "plan", "new");
  EXPECT_EQ(read_text_file(folder / "plan"), "new");
  EXPECT_FALSE(fs::exists(folder / ".plan.graft-0.tmp"));
  write_file(folder / ".plan.graft-0.tmp", "half");
  ASSERT_EQ(::rename((folder / ".plan.graft-1.tmp").c_str(), (folder / ".plan.graft-0.tmp").c_str()), 0);
  write_file(folder / "plan", "newer");
  EXPECT_EQ(read_text_file(folder / "plan"), "newer");
  EXPECT_EQ(read_text_file(folder / ".plan.graft-0.tmp"), "of a living writer");
  ::close(living);
}

TEST(OutputFile, a_path_is_checked_before_the_work_and_nothing_changes) {
  const TemporaryDirectory folder;
  write_file(folder / "plan", "old");
  for (const char* name : {"plan", "new"}) EXPECT_NO_THROW(check_writable(folder / name)) << name;
  EXPECT_NO_THROW(check_writable("/dev/null"));
  EXPECT_NO_THROW(check_writable("/dev/stdout"));
  for (const char* name : {"", "absent/plan", "plan/plan"}) EXPECT_THROW(check_writable(folder / name), Error) << name;
  EXPECT_THROW(check_writable(""), Error);
  EXPECT_EQ(read_text_file(folder / "plan"), "old");
  EXPECT_EQ(folder.file_count(), 1u);
}

TEST(OutputFile, one_file_is_known_by_all_its_names) {
  const TemporaryDirectory folder;
  write_file(folder / "plan", "old");
  write_file(folder / "other", "old");
  fs::create_symlink("plan", folder / "link");
  fs::create_hard_link(folder / "plan", folder / "twin");
  for (const char* name : {"plan", "./plan", "link", "twin"}) EXPECT_TRUE(is_same_file(folder / "plan", folder / name));
  EXPECT_FALSE(is_same_file(folder / "plan", folder / "other"));
  EXPECT_FALSE(is_same_file(folder / "plan", folder / "absent") || is_same_file(folder / "absent", folder / "absent"));
  EXPECT_FALSE(was_read(folder / "twin"));  // though files of other tests had its number
  read_text_file(folder / "plan");
  EXPECT_TRUE(was_read(folder / "twin"));
  EXPECT_FALSE(was_read(folder / "other"));
}

TEST(OutputFile, errors_blame_the_path_or_the_machine) {
  const TemporaryDirectory folder;
  EXPECT_EQ(kind_of_failure(folder / "absent/plan"), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind_of_failure(folder.path()), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind_of_failure(folder / std::string(300, 'n')), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind_of_failure("/dev/full"), ErrorKind::kDevice);
}

}  // namespace
}  // namespace graft
