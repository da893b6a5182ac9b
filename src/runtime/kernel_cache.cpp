// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "runtime/kernel_entry.h"

namespace graft {
namespace {

constexpr std::string_view kEntrySuffix = ".kernel";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr int64_t kStaleSeconds = 3600;

/// Closes a file descriptor on every way out.
struct OwnedDescriptor {
  int value = -1;
  ~OwnedDescriptor() {
    if (value >= 0) ::close(value);
  }
};

/// Logs a warning the first time that `subject` comes up in this process.
void warn_once(const std::string& subject, const std::string& message) {
  static std::mutex mutex;
  static std::set<std::string>* seen = new std::set<std::string>;
  {
    const std::lock_guard lock(mutex);
    if (!seen->insert(subject).second) return;
  }
  log(LogLevel::kWarning, "{}", message);
}

bool read_all(int descriptor, void* into, size_t bytes) {
  auto* at = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t got = ::read(descriptor, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int descriptor, const void* from, size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

/// Why the opened file is not one that only this user can have put there; empty when it is. Entries are made with mode
/// 0600 and one name, so what came from elsewhere shows: files of others by their owner, downloads of this user that
/// somebody moved or linked here while the directory was open to others by their mode or their second name.
std::string why_not_ours(const struct stat& status) {
  if (status.st_uid != ::geteuid()) return fmt::format("belongs to user {}", status.st_uid);
  if ((status.st_mode & 07077u) != 0) return fmt::format("is open to others (mode {:04o})", status.st_mode & 07777u);
  if (S_ISREG(status.st_mode) && status.st_nlink > 1) return "has a second name";
  return "";
}

/// The same for a directory that root shares with all users: why not only root can have put the file there.
std::string why_not_roots(const struct stat& status) {
  if (status.st_uid != 0) return fmt::format("belongs to user {}", status.st_uid);
  if ((status.st_mode & 07022u) != 0) return fmt::format("others may change it (mode {:04o})", status.st_mode & 07777u);
  if (S_ISREG(status.st_mode) && status.st_nlink > 1) return "has a second name";
  return "";
}

/// The entry's code, or nothing when the file is not a whole entry for this key. `is_other`: it is one for another.
std::optional<std::vector<std::byte>> read_entry(int descriptor, std::string_view key, bool& is_other) {
  struct stat status;
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  if (static_cast<uint64_t>(status.st_size) > 2 * kLargestKernelEntry) return std::nullopt;
  std::vector<std::byte> bytes(static_cast<size_t>(status.st_size));
  if (!read_all(descriptor, bytes.data(), bytes.size())) return std::nullopt;
  const auto entry = decode_kernel_entry(bytes);
  if (!entry || entry->bytes != bytes.size()) return std::nullopt;
  is_other = entry->key != key;
  if (is_other) return std::nullopt;
  return std::vector<std::byte>(entry->code.begin(), entry->code.end());
}

/// Calls `visit(name, status)` for each regular file of the directory.
template <class Visit>
void for_each_file(int directory, const Visit& visit) {
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return;
  DIR* stream = ::fdopendir(copy);
  if (!stream) {
    ::close(copy);
    return;
  }
  while (const dirent* file = ::readdir(stream)) {
    struct stat status;
    if (::fstatat(directory, file->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(status.st_mode)) visit(std::string(file->d_name), status);
  }
  ::closedir(stream);
}

/// The user that stands for all whom a user namespace does not know, as the owner of `/` may be in a container.
uid_t unmapped_user() {
  unsigned user = 65534;
  if (std::FILE* file = std::fopen("/proc/sys/fs/overflowuid", "r")) {
    if (std::fscanf(file, "%u", &user) != 1) user = 65534;
    std::fclose(file);
  }
  return user;
}

/// The first directory above `path` in which others can replace what lies on the way, and why; empty when there is
/// none. Whoever can replace a part of the way can have it lead to another directory of this user's.
std::string open_parent(const std::string& path) {
  for (size_t slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1)) {
    const std::string parent = slash == 0 ? "/" : path.substr(0, slash);
    struct stat status;
    if (::lstat(parent.c_str(), &status) != 0) return fmt::format("'{}': {}", parent, std::strerror(errno));
    const bool trusted = status.st_uid == 0 || status.st_uid == ::geteuid() || status.st_uid == unmapped_user();
    if (!trusted) return fmt::format("'{}' above it belongs to user {}", parent, status.st_uid);
    if (S_ISLNK(status.st_mode)) continue;
    const bool group = (status.st_mode & S_IWGRP) != 0 && status.st_gid != ::getegid();  // one's own is the user's
    if ((group || (status.st_mode & S_IWOTH) != 0) && (status.st_mode & S_ISVTX) == 0) {
      return fmt::format("others may write to '{}' above it (mode {:04o})", parent, status.st_mode & 07777u);
    }
  }
  return "";
}

/// The path from the root on, as it is written.
std::string from_root(const std::string& path) {
  if (path[0] == '/') return path;
  const std::unique_ptr<char, void (*)(void*)> here(::realpath(".", nullptr), std::free);
  return here ? std::string(here.get()) + "/" + path : path;
}

/// Makes the directory and its parents, each for the user alone; what is there stays as it is.
void make_directories(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1)) {
    ::mkdir(path.substr(0, slash).c_str(), 0700);
  }
  ::mkdir(path.c_str(), 0700);
}

std::string home_directory() {
  if (const char* home = std::getenv("HOME"); home && home[0] == '/') return home;
  const passwd* user = ::getpwuid(::geteuid());
  return user && user->pw_dir && user->pw_dir[0] == '/' ? user->pw_dir : "";
}

}  // namespace

std::string kernel_key(std::initializer_list<std::string_view> parts) {
  std::string key;
  for (const std::string_view part : parts) {
    key += fmt::format("{}:", part.size());
    key += part;
    key += '\n';
  }
  return key;
}

std::string KernelCache::entry_name(std::string_view key) {
  return hash128(key).to_string() + std::string(kEntrySuffix);
}

std::string KernelCache::default_directory() {
  if (!environment().cache_directory.empty()) return environment().cache_directory;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && cache[0] == '/') return std::string(cache) + "/graft";
  const std::string home = home_directory();
  return home.empty() ? "" : home + "/.cache/graft";
}

KernelCache::KernelCache(std::string directory, uint64_t limit) : directory_(std::move(directory)), limit_(limit) {
  open_directory(true);
  if (descriptor_ >= 0) remove_stale_temporaries();
}

KernelCache::KernelCache(std::string directory, Look) : directory_(std::move(directory)), limit_(0) {
  writable_.store(false, std::memory_order_relaxed);
  open_directory(false);
}

std::unique_ptr<KernelCache> KernelCache::look(std::string directory) {
  return std::unique_ptr<KernelCache>(new KernelCache(std::move(directory), Look{}));
}

KernelCache::~KernelCache() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

/// Opens the directory and checks what was opened, so that a later change of the path leads nowhere else.
void KernelCache::open_directory(bool make) {
  if (directory_.empty()) return refuse("there is no home directory to keep it in; set GRAFT_CACHE to a directory");
  OwnedDescriptor opened{::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (opened.value < 0 && errno == ENOENT) {
    if (!make) return;
    make_directories(directory_);
    opened.value = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }
  if (opened.value < 0) {
    return refuse(fmt::format("{}; set GRAFT_CACHE to a directory that you can write to", std::strerror(errno)));
  }
  struct stat status;
  if (::fstat(opened.value, &status) != 0) return refuse(std::strerror(errno));
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    return refuse(
        fmt::format("it belongs to user {}, and code in it could be anybody's; set GRAFT_CACHE to a "
                    "directory of your own",
                    status.st_uid));
  }
  shared_ = status.st_uid == 0 && (status.st_mode & (S_IROTH | S_IXOTH)) == (S_IROTH | S_IXOTH);
  if (status.st_uid != ::geteuid()) writable_.store(false, std::memory_order_relaxed);  // for root to fill
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return refuse(fmt::format("others may write to it (mode {:04o}); run `chmod 700 '{}'` after checking its contents",
                              status.st_mode & 07777u, directory_));
  }
  // The way as written and the way that its links lead.
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(directory_.c_str(), nullptr), std::free);
  for (const std::string& way : {from_root(directory_), std::string(real ? real.get() : "")}) {
    if (const std::string open = open_parent(way); !open.empty()) {
      return refuse(fmt::format("{}, so that they could put another in its place; set GRAFT_CACHE to a directory "
                                "below your home", open));
    }
  }
  descriptor_ = std::exchange(opened.value, -1);
}

void KernelCache::refuse(std::string problem) {
  problem_ = std::move(problem);
  const std::string message = fmt::format("the kernel cache '{}' is not used: {}", directory_, problem_);
  warn_once(message, message);
}

std::optional<std::vector<std::byte>> KernelCache::find(std::string_view key) {
  if (descriptor_ < 0) return std::nullopt;
  const std::string name = entry_name(key);
  const OwnedDescriptor file{
      ::openat(descriptor_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.value < 0) {
    if (errno == ELOOP) ::unlinkat(descriptor_, name.c_str(), 0);
    return std::nullopt;
  }
  struct stat status;
  const auto why_not = shared_ ? why_not_roots : why_not_ours;
  const std::string problem = ::fstat(file.value, &status) == 0 ? why_not(status) : std::strerror(errno);
  if (!problem.empty()) {
    warn_once(directory_ + " entries",
              fmt::format("the kernel cache '{}': the entry {} {}; such entries are removed and made anew", directory_,
                          name, problem));
    ::unlinkat(descriptor_, name.c_str(), 0);
    return std::nullopt;
  }
  bool is_other = false;
  auto code = read_entry(file.value, key, is_other);
  if (code) {
    const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
    (void)!::futimens(file.value, times);  // only the order of removal depends on it
  } else if (!is_other) {
    log(LogLevel::kReason, "kernel cache: the entry {} is damaged and removed", name);
    ::unlinkat(descriptor_, name.c_str(), 0);
  }
  return code;
}

void KernelCache::store(std::string_view key, std::span<const std::byte> code) {
  if (descriptor_ < 0 || !writable_.load(std::memory_order_relaxed)) return;
  if (key.size() + code.size() > std::min<uint64_t>(limit_, kLargestKernelEntry)) return;
  const std::vector<std::byte> entry = encode_kernel_entry(key, code);
  const std::lock_guard lock(mutex_);
  make_room(entry.size());
  if (write_entry(entry_name(key), entry)) {
    *total_ += entry.size();
  } else if (errno == ENOENT) {
    log(LogLevel::kReason, "kernel cache '{}': somebody emptied it while an entry was being written", directory_);
  } else {
    cannot_store(errno);
  }
}

void KernelCache::cannot_store(int code) {
  const bool forever = code == EROFS || code == EACCES || code == EPERM;
  if (forever) writable_.store(false, std::memory_order_relaxed);
  const std::string message =
      fmt::format("the kernel cache '{}' keeps nothing new: {}; {}", directory_, std::strerror(code),
                  forever ? "set GRAFT_CACHE to a directory that you can write to"
                          : "free some space or set GRAFT_CACHE to another place");
  warn_once(message, message);
}

/// Writes beside the entry and renames; false with errno set, and nothing left, when that fails.
bool KernelCache::write_entry(const std::string& name, std::span<const std::byte> entry) {
  static std::atomic<uint64_t> counter{0};
  const std::string temporary = fmt::format("{}-{}-{}{}", name, ::getpid(), counter.fetch_add(1), kTemporarySuffix);
  const int flags = O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW;
  OwnedDescriptor file{::openat(descriptor_, temporary.c_str(), flags, 0600)};
  if (file.value < 0 && errno == EEXIST) {  // of a dead process that had our number
    ::unlinkat(descriptor_, temporary.c_str(), 0);
    file.value = ::openat(descriptor_, temporary.c_str(), flags, 0600);
  }
  if (file.value < 0) return false;
  const bool written = write_all(file.value, entry.data(), entry.size()) &&
                       (!shared_ || ::fchmod(file.value, 0644) == 0) &&
                       ::renameat(descriptor_, temporary.c_str(), descriptor_, name.c_str()) == 0;
  if (written) return true;
  const int failure = errno;
  ::unlinkat(descriptor_, temporary.c_str(), 0);
  errno = failure;
  return false;
}

/// Removes the least recently used entries until `added` bytes fit, with a tenth of the limit to spare.
void KernelCache::make_room(uint64_t added) {
  if (!total_) total_ = size();
  if (*total_ + added <= limit_) return;
  total_ = size();  // other processes store and remove too
  if (*total_ + added <= limit_) return;
  const uint64_t wanted = limit_ - std::max(added, limit_ / 10);
  for (const CacheEntry& entry : list()) {
    if (*total_ <= wanted) break;
    if (::unlinkat(descriptor_, entry.name.c_str(), 0) != 0 && errno != ENOENT) continue;
    *total_ -= std::min(*total_, entry.bytes);
  }
}

/// Removes what processes left that were killed while storing; a live one needs less than an hour.
void KernelCache::remove_stale_temporaries() const {
  for_each_file(descriptor_, [&](const std::string& name, const struct stat& status) {
    if (!name.ends_with(kTemporarySuffix) || name.find(kEntrySuffix) == name.npos) return;
    if (::time(nullptr) - status.st_mtime > kStaleSeconds) ::unlinkat(descriptor_, name.c_str(), 0);
  });
}

std::vector<CacheEntry> KernelCache::list() const {
  std::vector<std::pair<int64_t, CacheEntry>> found;
  if (descriptor_ < 0) return {};
  for_each_file(descriptor_, [&](const std::string& name, const struct stat& status) {
    if (!name.ends_with(kEntrySuffix)) return;
    const int64_t used = status.st_atim.tv_sec * 1'000'000'000 + status.st_atim.tv_nsec;
    found.push_back({used, {name, static_cast<uint64_t>(status.st_size), status.st_atim.tv_sec}});
  });
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second.name) < std::tie(b.first, b.second.name);
  });
  std::vector<CacheEntry> entries;
  for (auto& [used, entry] : found) entries.push_back(std::move(entry));
  return entries;
}

uint64_t KernelCache::size() const {
  uint64_t total = 0;
  for (const CacheEntry& entry : list()) total += entry.bytes;
  return total;
}

int KernelCache::clear() {
  if (descriptor_ < 0) return 0;
  const std::lock_guard lock(mutex_);
  total_.reset();
  int removed = 0, left = 0, failure = 0;
  for_each_file(descriptor_, [&](const std::string& name, const struct stat&) {
    const bool entry = name.ends_with(kEntrySuffix);
    const bool temporary = name.ends_with(kTemporarySuffix) && name.find(kEntrySuffix) != name.npos;
    if (!entry && !temporary) return;
    if (::unlinkat(descriptor_, name.c_str(), 0) == 0) {
      removed += entry;
    } else if (errno != ENOENT) {  // which another process has removed
      failure = errno;
      ++left;
    }
  });
  GRAFT_USER_CHECK(left == 0, kDevice,
                   fmt::format("{} files of the kernel cache could not be removed: {}; check the permissions of the "
                               "folder and its file system", left, std::strerror(failure)), directory_);
  return removed;
}

}  // namespace graft
