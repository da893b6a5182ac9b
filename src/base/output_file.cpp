// SPDX-License-Identifier: Apache-2.0
// Writing files: where a path leads, and how its contents come to have that name.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/file_call.h"

namespace graft {
namespace {

/// As many links as the system follows.
constexpr int kMostLinks = 40;
constexpr int kMostTemporaries = 1000;
constexpr mode_t kMode = 0666;  // reduced by the process's umask

/// Where writing to a path leads.
struct Destination {
  std::string path;     ///< after all links
  bool direct = false;  ///< there is something that only can be written as it is
  int descriptor = -1;  ///< the open file of this process that it is
};

std::string real_path(const std::string& path) {
  char buffer[PATH_MAX];
  return ::realpath(path.c_str(), buffer) ? buffer : "";
}

/// Whether a link stands for an open file of a process: what it says is not a path then.
bool is_link_of_process(const std::string& link) {
  struct statfs status;
  return ::statfs(directory_of(link).c_str(), &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

/// 1 for /proc/self/fd/1; -1 for an open file of another process.
int own_descriptor(const std::string& link) {
  if (real_path(directory_of(link)) != real_path("/proc/self/fd")) return -1;
  int number = -1;
  const char* end = link.data() + link.size();
  const auto [stop, fault] = std::from_chars(link.data() + link.rfind('/') + 1, end, number);
  return fault == std::errc() && stop == end ? number : -1;
}

std::string read_link(const std::string& link) {
  char buffer[PATH_MAX];
  const ssize_t length = ::readlink(link.c_str(), buffer, sizeof buffer);
  if (length < 0) fail_on_file("follow", link, errno);
  const std::string target(buffer, static_cast<size_t>(length));
  return target.starts_with('/') ? target : fmt::format("{}/{}", directory_of(link), target);
}

/// Follows the links one by one, so that the last name, which a file that is written takes, is known.
Destination find_destination(const std::string& path, bool follow_links) {
  GRAFT_USER_CHECK(!path.empty(), kInvalidArgument, "the name of a file to write is empty", "file");
  struct stat status;
  // The system may forbid to follow a link that a stranger has put into a shared folder.
  if (::stat(path.c_str(), &status) != 0 && errno != ENOENT) fail_on_file("create", path, errno);
  std::string at = path;
  for (int links = 0; links <= kMostLinks; ++links) {
    if (::lstat(at.c_str(), &status) != 0) {
      if (errno != ENOENT) fail_on_file("create", path, errno);
      return {.path = at};
    }
    if (S_ISDIR(status.st_mode)) fail_on_file("create", path, EISDIR);
    if (S_ISREG(status.st_mode)) return {.path = at};
    if (!S_ISLNK(status.st_mode)) return {.path = at, .direct = true};
    GRAFT_USER_CHECK(follow_links, kInvalidArgument, "a symbolic link has this name; remove it", path);
    if (is_link_of_process(at)) return {.path = at, .direct = true, .descriptor = own_descriptor(at)};
    at = read_link(at);
  }
  fail_on_file("create", path, ELOOP);
}

/// Hidden, and found again by the next writer of the same file.
std::string temporary_name(const std::string& target, int number) {
  const std::string name = target.substr(target.rfind('/') + 1);
  return fmt::format("{}/.{:.200}.graft-{}.tmp", directory_of(target), name, number);
}

/// Whether the name is that of the open file.
bool has_name(int descriptor, const std::string& name) {
  struct stat opened, named;
  return ::fstat(descriptor, &opened) == 0 && ::lstat(name.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

/// Removes a temporary file whose writer was killed: a living one holds a lock. False when it is in use, or not ours.
bool remove_stale(const std::string& name) {
  const Descriptor file(::open(name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.get() < 0) return errno == ENOENT;
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  return !has_name(file.get(), name) || ::unlink(name.c_str()) == 0;
}

/// Calls `take(name)` with names for a temporary file until it gets one; what killed processes left goes on the way.
/// `take` returns false with EEXIST set for a name that is not free.
template <class Take>
std::string take_temporary(const std::string& target, const std::string& path, const Take& take) {
  for (int number = 0; number < kMostTemporaries; ++number) {
    const std::string name = temporary_name(target, number);
    if (take(name)) return name;
    if (errno != EEXIST) fail_on_file("create", path, errno);
    if (remove_stale(name) && take(name)) return name;
  }
  fail_on_file("create", path, EEXIST);
}

}  // namespace

OutputFile::OutputFile(std::string path, WriteOptions options) : path_(std::move(path)), options_(options) {
  Destination destination = find_destination(path_, options_.follow_links);
  target_ = std::move(destination.path);
  direct_ = destination.direct;
  if (!direct_) {
    open_beside();
    return;
  }
  descriptor_ = destination.descriptor >= 0 ? ::fcntl(destination.descriptor, F_DUPFD_CLOEXEC, 0)
                                            : ::open(target_.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (descriptor_ < 0) fail_on_file("open", path_, errno);
}

/// Opens a file without a name, or with a temporary one where the file system knows no others, and locks it.
void OutputFile::open_beside() {
  descriptor_ = ::open(directory_of(target_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode);
  if (descriptor_ >= 0) {
    ::flock(descriptor_, LOCK_EX | LOCK_NB);
    return;
  }
  temporary_ = take_temporary(target_, path_, [&](const std::string& name) {
    Descriptor file(::open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, kMode));
    if (file.get() < 0) return false;
    // Another writer may have found it before it was locked, and removed it.
    const bool locked = ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    errno = EEXIST;
    if (!locked || !has_name(file.get(), name)) return false;
    descriptor_ = file.release();
    return true;
  });
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail_on_file("write", path_, written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void OutputFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

/// A file without a name gets it in one step when the name is free. Only a rename replaces a file in one step, and it
/// needs a name to start from.
void OutputFile::give_name() {
  if (temporary_.empty()) {
    const std::string unnamed = fmt::format("/proc/self/fd/{}", descriptor_);
    const auto link = [&](const std::string& name) {
      return ::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
    };
    if (link(target_)) return;
    if (errno != EEXIST) fail_on_file("create", path_, errno);
    temporary_ = take_temporary(target_, path_, link);
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_on_file("create", path_, errno);
  temporary_.clear();
}

void OutputFile::commit() {
  GRAFT_CHECK(descriptor_ >= 0, "a file is committed once");
  if (!direct_) {
    if (options_.durable && ::fsync(descriptor_) != 0) fail_on_file("write", path_, errno);
    give_name();
  }
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail_on_file("write", path_, errno);
  if (direct_ || !options_.durable) return;
  const Descriptor directory(::open(directory_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) ::fsync(directory.get());
}

void write_file(const std::string& path, std::string_view text, WriteOptions options) {
  OutputFile file(path, options);
  file.write(text);
  file.commit();
}

void check_writable(const std::string& path) {
  const Destination destination = find_destination(path, true);
  if (!destination.direct) {
    const OutputFile probe(path);
  } else if (destination.descriptor < 0 && ::access(destination.path.c_str(), W_OK) != 0) {
    fail_on_file("open", path, errno);
  }
}

}  // namespace graft
