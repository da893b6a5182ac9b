// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace graft {
namespace {

/// Closes a file descriptor on every way out.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  int get() const { return value_; }

 private:
  int value_;
};

/// What the user can do about a failed call.
std::string_view remedy_for(int code) {
  switch (code) {
    case ENOENT:
      return "check the path";
    case EACCES:
    case EPERM:
      return "check the permissions";
    case EROFS:
      return "the file system is read-only; choose another place";
    case ENOSPC:
    case EDQUOT:
      return "free some space or choose another place";
    case EMFILE:
    case ENFILE:
      return "too many files are open; raise the limit with `ulimit -n`";
    case ENOMEM:
      return "not enough address space or memory; free some";
    default:
      return "check the path and the device";
  }
}

[[noreturn]] void fail(std::string_view action, const std::string& path, int code) {
  throw Error(ErrorKind::kDevice,
              fmt::format("cannot {} the file: {}; {}", action, std::strerror(code), remedy_for(code)), path);
}

constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

[[noreturn]] void refuse(std::string_view relative, const std::string& reason) {
  throw Error(ErrorKind::kInvalidModel,
              fmt::format("the path is refused because {}; data of a model must be a regular file "
                          "below the model's own folder",
                          reason),
              fmt::format("external data '{}'", relative));
}

/// Opens the parts of a relative path one after the other, so that no link can lead elsewhere.
Descriptor open_below(const std::string& directory, std::string_view relative) {
  if (relative.empty()) refuse(relative, "it is empty");
  if (relative.find('\0') != relative.npos) refuse(relative, "it contains a zero byte");
  if (relative.front() == '/') refuse(relative, "it is absolute");
  Descriptor at(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (at.get() < 0) fail("open", directory, errno);
  size_t begin = 0;
  while (begin <= relative.size()) {
    const size_t end = std::min(relative.find('/', begin), relative.size());
    const std::string part(relative.substr(begin, end - begin));
    const bool last = end == relative.size();
    begin = end + 1;
    if (part == "..") refuse(relative, "it contains '..'");
    if (part.empty() && last) refuse(relative, "it names a folder");
    if (part.empty() || (part == "." && !last)) continue;
    const int flags = last ? kReadFlags : (O_PATH | O_DIRECTORY | O_CLOEXEC);
    Descriptor next(::openat(at.get(), part.c_str(), flags | O_NOFOLLOW));
    if (next.get() < 0) {
      const int code = errno;
      struct stat status;
      if (::fstatat(at.get(), part.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode)) {
        refuse(relative, fmt::format("'{}' is a symbolic link", part));
      }
      fail("open", fmt::format("{}/{}", directory, relative), code);
    }
    at = std::move(next);
  }
  return at;
}

void write_all(int descriptor, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("write", path, written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

std::string temporary_name(const std::string& directory) {
  static std::atomic<uint64_t> counter{0};
  return fmt::format("{}/.graft-{}-{}.tmp", directory, ::getpid(), counter.fetch_add(1));
}

}  // namespace

MappedFile::MappedFile(int descriptor, std::string path) : path_(std::move(path)) {
  struct stat status;
  if (::fstat(descriptor, &status) != 0) fail("read", path_, errno);
  GRAFT_USER_CHECK(S_ISREG(status.st_mode), kInvalidArgument,
                   "this is not a regular file; give a file that can be mapped", path_);
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) fail("map", path_, errno);
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  const Descriptor file(::open(path.c_str(), kReadFlags));
  if (file.get() < 0) fail("open", path, errno);
  return std::shared_ptr<const MappedFile>(new MappedFile(file.get(), path));
}

std::shared_ptr<const MappedFile> MappedFile::open_contained(const std::string& directory, std::string_view relative) {
  const Descriptor file = open_below(directory, relative);
  return std::shared_ptr<const MappedFile>(new MappedFile(file.get(), fmt::format("{}/{}", directory, relative)));
}

AtomicFile::AtomicFile(std::string path, unsigned mode) : path_(std::move(path)), directory_(directory_of(path_)) {
  struct stat status;
  GRAFT_USER_CHECK(::stat(path_.c_str(), &status) != 0 || S_ISREG(status.st_mode), kInvalidArgument,
                   "something that is not a regular file has this name; choose another", path_);
  descriptor_ = ::open(directory_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  if (descriptor_ >= 0) return;
  temporary_ = temporary_name(directory_);
  descriptor_ = ::open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
  if (descriptor_ < 0) fail("create", path_, errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_all(descriptor_, bytes, path_);
  size_ += bytes.size();
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::write_at(size_t offset, std::span<const std::byte> bytes) {
  GRAFT_CHECK(offset <= size_ && bytes.size() <= size_ - offset, "only written bytes are replaced");
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("write", path_, written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<size_t>(written);
  }
}

void AtomicFile::commit() {
  GRAFT_CHECK(descriptor_ >= 0, "a file is committed once");
  if (::fsync(descriptor_) != 0) fail("write", path_, errno);
  if (temporary_.empty()) {
    const std::string name = temporary_name(directory_);
    const std::string unnamed = fmt::format("/proc/self/fd/{}", descriptor_);
    if (::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      fail("create", path_, errno);
    }
    temporary_ = name;
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("create", path_, errno);
  temporary_.clear();
  ::close(std::exchange(descriptor_, -1));
  const Descriptor directory(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) ::fsync(directory.get());
}

void write_file(const std::string& path, std::span<const std::byte> bytes, unsigned mode) {
  AtomicFile file(path, mode);
  file.write(bytes);
  file.commit();
}

void write_file(const std::string& path, std::string_view text, unsigned mode) {
  write_file(path, std::as_bytes(std::span(text)), mode);
}

std::string read_text_file(const std::string& path) {
  const auto file = MappedFile::open(path);
  const auto bytes = file->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace graft
