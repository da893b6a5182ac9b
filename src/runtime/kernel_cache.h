// SPDX-License-Identifier: Apache-2.0
// The kernel cache: compiled code in a directory of the user's own, shared by processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

/// Everything that compiled code depends on, as one text in which no two lists of parts coincide: the generator and its
/// version, the target, the options, the tile programs. An entry keeps it whole and compares it, so that nobody can
/// plan a collision of hashes to have other code run.
std::string kernel_key(std::initializer_list<std::string_view> parts);

/// One file of the cache, for `graft cache`.
struct CacheEntry {
  std::string name;
  uint64_t bytes = 0;
  int64_t last_used = 0;  ///< seconds since 1970
};

/// Code by key. What it holds is executed, so it is trusted as far as the file system vouches for it: a directory that
/// others own or may write to, or below one in which they could replace it, is not used at all (the cache then finds
/// and stores nothing, and `problem` says why), and of the entries only those that the opened file shows to be this
/// user's, closed to others and of one name. So what somebody planted while a directory was open to others is not used
/// after it was closed either. A directory of root's that nobody else may write to is for all users: they read
/// it, root alone stores. A secret to sign entries with would add nothing: whoever can read files of this user's
/// mode 0600 can write its entries too. No failure of the file system stops a run: it is logged once. Safe from any
/// thread and with other processes on the same directory; entries are complete or absent, even when a process is
/// killed.
///
///   KernelCache cache;
///   const std::string key = kernel_key({generator, target, programs});
///   if (auto code = cache.find(key)) return *code;
///   cache.store(key, code);
class KernelCache {
 public:
  static constexpr uint64_t kDefaultLimit = uint64_t{512} << 20;

  /// Opens `directory`, making it with mode 0700 when it is not there. `limit`: bytes of all entries together; the
  /// least recently used ones are removed beyond it.
  explicit KernelCache(std::string directory = default_directory(), uint64_t limit = kDefaultLimit);
  /// Opens what is there and writes nothing: a directory that is not there stays so, and counts as empty.
  static std::unique_ptr<KernelCache> look(std::string directory = default_directory());
  ~KernelCache();
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  /// $GRAFT_CACHE, or $XDG_CACHE_HOME/graft, or ~/.cache/graft; empty when there is no home.
  static std::string default_directory();

  /// The code stored under the key. An entry that is damaged is removed and counts as absent.
  std::optional<std::vector<std::byte>> find(std::string_view key);
  void store(std::string_view key, std::span<const std::byte> code);

  /// The file of an entry, in the directory.
  static std::string entry_name(std::string_view key);

  const std::string& directory() const { return directory_; }
  /// Why the cache is not used; empty when it is.
  const std::string& problem() const { return problem_; }
  /// All entries, the least recently used first.
  std::vector<CacheEntry> list() const;
  /// Bytes of all entries.
  uint64_t size() const;
  /// Removes all entries and what killed processes left; returns how many entries went. Throws a device error when
  /// some are still there.
  int clear();

 private:
  struct Look {};
  KernelCache(std::string directory, Look);
  void open_directory(bool make);
  void refuse(std::string problem);
  void cannot_store(int code);
  bool write_entry(const std::string& name, std::span<const std::byte> entry);
  void make_room(uint64_t added);
  void remove_stale_temporaries() const;

  std::string directory_;
  uint64_t limit_;
  int descriptor_ = -1;  ///< of the directory as it was checked
  std::string problem_;
  bool shared_ = false;  ///< root's, for all users
  std::atomic<bool> writable_{true};
  std::mutex mutex_;
  std::optional<uint64_t> total_;  ///< about the bytes of all entries; counted anew when it reaches the limit
};

}  // namespace graft
