// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/import_budget.h"
#include "base/file_call.h"

namespace graft {
namespace {

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
    case EISDIR:
      return "this is a folder; name a file in it";
    case ENAMETOOLONG:
      return "choose a shorter name";
    case EBADF:
      return "the process has no such file open for writing";
    case EMFILE:
    case ENFILE:
      return "too many files are open; raise the limit with `ulimit -n`";
    case ENOMEM:
      return "not enough address space or memory; free some";
    default:
      return "check the path and the device";
  }
}

/// Whether the path is at fault, which the caller can choose otherwise, rather than the machine.
bool blames_path(int code) {
  constexpr int kCodes[] = {ENOENT, ENOTDIR, EISDIR, EACCES, EPERM, EROFS, ELOOP, ENAMETOOLONG, EINVAL, ENXIO, EBADF};
  return std::find(std::begin(kCodes), std::end(kCodes), code) != std::end(kCodes);
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
  if (at.get() < 0) fail_on_file("open", directory, errno);
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
      fail_on_file("open", fmt::format("{}/{}", directory, relative), code);
    }
    at = std::move(next);
  }
  return at;
}

/// What identifies a file, whatever its names are.
using Identity = std::pair<dev_t, ino_t>;

std::optional<Identity> identity_of(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return Identity(status.st_dev, status.st_ino);
}

/// A file as it was at some time: the number of one that is gone is given again.
using Version = std::tuple<dev_t, ino_t, time_t, long>;

Version version_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

/// The files that this process has read; never destroyed, since threads may read while the process ends.
struct ReadFiles {
  std::mutex mutex;
  std::set<Version> versions;
};

ReadFiles& read_files() {
  static ReadFiles* instance = new ReadFiles;
  return *instance;
}

}  // namespace

void fail_on_file(std::string_view action, const std::string& path, int code) {
  throw Error(blames_path(code) ? ErrorKind::kInvalidArgument : ErrorKind::kDevice,
              fmt::format("cannot {} the file: {}; {}", action, std::strerror(code), remedy_for(code)), path);
}

namespace {

/// The files that are mapped, by where they begin, the last first; never destroyed, since they may outlive it.
struct Mappings {
  std::mutex mutex;
  std::map<const std::byte*, std::weak_ptr<const MappedFile>, std::greater<>> by_begin;
};

Mappings& mappings() {
  static Mappings* all = new Mappings;
  return *all;
}

}  // namespace

MappedFile::Stamp MappedFile::stamp_of(int descriptor, const std::string& path) {
  struct stat status;
  if (::fstat(descriptor, &status) != 0) fail_on_file("read", path, errno);
  return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

bool MappedFile::was_changed() const { return data_ && stamp_of(descriptor_, path_) != stamp_; }

std::shared_ptr<const MappedFile> MappedFile::find(const void* byte) {
  const auto* at = static_cast<const std::byte*>(byte);
  const std::lock_guard lock(mappings().mutex);
  const auto found = mappings().by_begin.lower_bound(at);  // the last that begins at or before the byte
  if (found == mappings().by_begin.end()) return nullptr;
  std::shared_ptr<const MappedFile> file = found->second.lock();
  return file && at < file->data_ + file->size_ ? file : nullptr;
}

MappedFile::MappedFile(int descriptor, std::string path) : path_(std::move(path)) {
  struct stat status;
  if (::fstat(descriptor, &status) != 0) fail_on_file("read", path_, errno);
  GRAFT_USER_CHECK(S_ISREG(status.st_mode), kInvalidArgument,
                   "this is not a regular file; give a file that can be mapped", path_);
  {
    const std::lock_guard lock(read_files().mutex);
    read_files().versions.insert(version_of(status));
  }
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) fail_on_file("map", path_, errno);
  data_ = static_cast<const std::byte*>(address);
  descriptor_ = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  const int code = errno;
  if (descriptor_ < 0) {
    ::munmap(address, size_);
    fail_on_file("keep open", path_, code);
  }
  stamp_ = {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

MappedFile::~MappedFile() {
  if (!data_) return;
  {
    const std::lock_guard lock(mappings().mutex);
    mappings().by_begin.erase(data_);
  }
  ::munmap(const_cast<std::byte*>(data_), size_);
  ::close(descriptor_);
}

std::shared_ptr<const MappedFile> MappedFile::share(int descriptor, std::string path) {
  std::shared_ptr<const MappedFile> file(new MappedFile(descriptor, std::move(path)));
  allow_import(file->size_);
  if (!file->data_) return file;
  const std::lock_guard lock(mappings().mutex);
  mappings().by_begin[file->data_] = file;
  return file;
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  const Descriptor file(::open(path.c_str(), kReadFlags));
  if (file.get() < 0) fail_on_file("open", path, errno);
  return share(file.get(), path);
}

std::shared_ptr<const MappedFile> MappedFile::open_contained(const std::string& directory, std::string_view relative) {
  const Descriptor file = open_below(directory, relative);
  return share(file.get(), fmt::format("{}/{}", directory, relative));
}

bool is_same_file(const std::string& path, const std::string& other) {
  const auto first = identity_of(path), second = identity_of(other);
  return first && first == second;
}

bool was_read(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return false;
  const std::lock_guard lock(read_files().mutex);
  return read_files().versions.contains(version_of(status));
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
