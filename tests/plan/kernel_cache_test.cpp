// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel_cache.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <fstream>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "plan/temporary_directory.h"

namespace graft {
namespace {

std::vector<std::byte> code_of(const std::string& key, size_t size = 300) {
  std::vector<std::byte> code(size);
  Random random(hash64(key));
  for (std::byte& b : code) b = static_cast<std::byte>(random.next());
  return code;
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

/// Counts warnings while it lives.
class WarningCounter {
 public:
  WarningCounter() {
    set_log_callback([this](LogLevel level, std::string_view text) {
      if (level == LogLevel::kWarning) texts.emplace_back(text);
    });
  }
  ~WarningCounter() { set_log_callback({}); }
  std::vector<std::string> texts;
};

TEST(KernelCache, keeps_code_by_key) {
  const TemporaryDirectory folder;
  const std::string key = kernel_key({"llvm 19", "avx2", "program"});
  KernelCache cache(folder / "a/b/cache");
  EXPECT_EQ(cache.problem(), "");
  EXPECT_FALSE(cache.find(key));
  cache.store(key, code_of("1"));
  EXPECT_EQ(cache.find(key), code_of("1"));
  EXPECT_FALSE(cache.find(kernel_key({"llvm 19", "avx2", "progra"})));
  EXPECT_EQ(KernelCache(folder / "a/b/cache").find(key), code_of("1"));
  cache.store(key, {});
  EXPECT_EQ(cache.find(key), std::vector<std::byte>());
}

TEST(KernelCache, keys_of_different_parts_differ) {
  EXPECT_NE(kernel_key({"ab", "c"}), kernel_key({"a", "bc"}));
  EXPECT_NE(kernel_key({"a", ""}), kernel_key({"a"}));
  EXPECT_NE(kernel_key({"a\n1:b"}), kernel_key({"a", "b"}));
}

TEST(KernelCache, is_the_users_own) {
  const TemporaryDirectory folder;
  KernelCache cache(folder / "x/cache");
  cache.store("k", code_of("k"));
  EXPECT_EQ(mode_of(folder / "x/cache"), 0700u);
  EXPECT_EQ(mode_of(folder / "x"), 0700u);
  EXPECT_EQ(mode_of(folder / ("x/cache/" + cache.list().at(0).name)), 0600u);
}

TEST(KernelCache, a_directory_that_others_write_to_is_refused_with_one_line) {
  for (const mode_t mode : {0770u, 0702u, 0777u | S_ISVTX}) {
    const TemporaryDirectory folder;
    const std::string path = folder / "cache";
    KernelCache(path).store("k", code_of("k"));
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    WarningCounter warnings;
    for (int i = 0; i < 2; ++i) {
      KernelCache cache(path);
      EXPECT_NE(cache.problem().find("chmod 700"), std::string::npos) << cache.problem();
      EXPECT_FALSE(cache.find("k"));
      cache.store("l", code_of("l"));
      EXPECT_EQ(cache.clear(), 0);
    }
    EXPECT_EQ(warnings.texts.size(), 1u);
  }
}

TEST(KernelCache, a_directory_of_another_user_is_refused) {
  const TemporaryDirectory folder;
  if (::chown(folder.path().c_str(), 12345, 12345) != 0) GTEST_SKIP() << "giving folders away needs root";
  KernelCache cache(folder.path());
  EXPECT_NE(cache.problem().find("belongs to user 12345"), std::string::npos) << cache.problem();
}

/// Runs `body` as another user, in a process of its own; gives its exit status, or nothing without root.
std::optional<int> as_another_user(const std::function<bool()>& body) {
  if (::geteuid() != 0) return std::nullopt;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::setgid(12345) == 0 && ::setuid(12345) == 0 && body() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(KernelCache, roots_directory_is_read_by_all_and_written_by_root_alone) {
  const TemporaryDirectory folder;
  const std::string path = folder / "cache";
  std::filesystem::create_directory(path);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  KernelCache(path).store("k", code_of("k"));
  const auto reads = [&] {
    KernelCache cache(path);
    cache.store("other", code_of("other"));
    return cache.problem().empty() && cache.find("k") == code_of("k") && !cache.find("other");
  };
  const auto status = as_another_user(reads);
  if (!status) GTEST_SKIP() << "other users need root";
  const auto enters = [&] { return ::access(path.c_str(), R_OK | X_OK) == 0; };
  if (as_another_user(enters) != 0) GTEST_SKIP() << "TMPDIR is closed to other users";
  EXPECT_EQ(*status, 0);
  EXPECT_EQ(KernelCache(path).list().size(), 1u);
  // What root did not make, or others may change, is not used.
  const std::string entry = path + "/" + KernelCache::entry_name("k");
  const auto finds = [&] { return KernelCache(path).find("k").has_value(); };
  ASSERT_EQ(::chmod(entry.c_str(), 0666), 0);
  EXPECT_NE(as_another_user(finds), 0);
  ASSERT_EQ(::chmod(entry.c_str(), 0644), 0);
  EXPECT_EQ(as_another_user(finds), 0);
  ASSERT_EQ(::chown(entry.c_str(), 12345, 12345), 0);
  EXPECT_NE(as_another_user(finds), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0777), 0);
  EXPECT_NE(KernelCache(path).problem(), "");
}

TEST(KernelCache, without_a_directory_a_run_goes_on) {
  KernelCache nowhere("/proc/self/cache"), unnamed("");
  EXPECT_NE(nowhere.problem().find("GRAFT_CACHE"), std::string::npos);
  EXPECT_NE(unnamed.problem().find("GRAFT_CACHE"), std::string::npos);
  nowhere.store("k", code_of("k"));
  EXPECT_FALSE(nowhere.find("k"));
  EXPECT_EQ(nowhere.size(), 0u);
}

/// Writes an entry as the cache does: open to this user alone.
void write_private(const std::string& path, const std::string& text) {
  write_file(path, text);
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(KernelCache, every_damaged_byte_is_a_miss_and_removes_the_entry) {
  const TemporaryDirectory folder;
  KernelCache cache(folder / "cache");
  cache.store("key", code_of("key", 40));
  const std::string file = folder / ("cache/" + cache.list().at(0).name);
  const std::string good = read_text_file(file);
  for (size_t at = 0; at <= good.size(); ++at) {
    std::string bad = good;
    if (at < good.size()) bad[at] = static_cast<char>(bad[at] ^ 4);
    if (at == good.size()) bad += "more";
    write_private(file, bad);
    ASSERT_FALSE(cache.find("key")) << "byte " << at;
    ASSERT_TRUE(cache.list().empty()) << "byte " << at;
    write_private(file, good.substr(0, at));
    ASSERT_EQ(cache.find("key").has_value(), at == good.size()) << "size " << at;
  }
}

TEST(KernelCache, an_entry_under_the_name_of_another_key_is_not_used) {
  const TemporaryDirectory folder;
  KernelCache cache(folder.path());
  cache.store("mine", code_of("mine"));
  const std::string mine = cache.list().at(0).name;
  cache.store("other", code_of("other"));
  const std::string other = cache.list().at(0).name == mine ? cache.list().at(1).name : cache.list().at(0).name;
  std::filesystem::copy_file(folder / other, folder / mine, std::filesystem::copy_options::overwrite_existing);
  EXPECT_FALSE(cache.find("mine"));
}

TEST(KernelCache, what_was_planted_while_the_directory_was_open_is_not_used_after_it_was_closed) {
  const auto own_by_another = [](const std::string& path) { return ::chown(path.c_str(), 12345, 12345) == 0; };
  const auto link = [](const std::string& path) { return ::link(path.c_str(), (path + ".more").c_str()) == 0; };
  const std::function<bool(const std::string&)> plants[] = {
      own_by_another,
      [](const std::string& path) { return ::chmod(path.c_str(), 0620) == 0; },
      [](const std::string& path) { return ::chmod(path.c_str(), 0602) == 0; },
      [](const std::string& path) { return ::chmod(path.c_str(), 0644) == 0; },  // as a download would be
      link,
  };
  for (const auto& plant : plants) {
    const TemporaryDirectory folder;
    const std::string path = folder / "cache";
    KernelCache(path).store("k", code_of("theirs"));
    ASSERT_EQ(::chmod(path.c_str(), 0777), 0);
    if (!plant(path + "/" + KernelCache::entry_name("k"))) continue;  // giving files away needs root
    ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
    WarningCounter warnings;
    KernelCache cache(path);
    ASSERT_EQ(cache.problem(), "");
    EXPECT_FALSE(cache.find("k"));
    EXPECT_FALSE(cache.find("k"));
    ASSERT_EQ(warnings.texts.size(), 1u);
    EXPECT_NE(warnings.texts[0].find("made anew"), std::string::npos) << warnings.texts[0];
    cache.store("k", code_of("ours"));
    EXPECT_EQ(cache.find("k"), code_of("ours"));
  }
}

TEST(KernelCache, a_directory_that_others_could_replace_is_refused) {
  const TemporaryDirectory folder;
  std::filesystem::create_directories(folder / "open/mine");
  std::filesystem::create_directory_symlink(folder / "open/mine", folder / "link");
  EXPECT_EQ(KernelCache(folder / "open/mine/cache").problem(), "");
  ASSERT_EQ(::chmod((folder / "open").c_str(), 0777), 0);
  for (const char* way : {"open/mine/cache", "link/cache"}) {
    const KernelCache cache(folder / way);
    EXPECT_NE(cache.problem().find("above it"), std::string::npos) << way << ": " << cache.problem();
  }
  ASSERT_EQ(::chmod((folder / "open").c_str(), 01777), 0);  // as /tmp: what is there stays its owner's
  EXPECT_EQ(KernelCache(folder / "open/mine/cache").problem(), "");
}

TEST(KernelCache, the_least_recently_used_entries_make_room) {
  const TemporaryDirectory folder;
  KernelCache cache(folder.path(), 10'000);
  for (int i = 0; i < 8; ++i) cache.store("key" + std::to_string(i), code_of("x", 1000));
  for (int i = 0; i < 8; ++i) {  // in this order of use: 1, 2, .. 7, 0
    const int key = (i + 1) % 8;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_TRUE(cache.find("key" + std::to_string(key))) << key;
  }
  for (int i = 8; i < 12; ++i) cache.store("key" + std::to_string(i), code_of("x", 1000));
  EXPECT_LE(cache.size(), 10'000u);
  EXPECT_TRUE(cache.find("key0"));
  EXPECT_FALSE(cache.find("key1"));
  EXPECT_TRUE(cache.find("key11"));
  cache.store("huge", code_of("huge", 20'000));
  EXPECT_FALSE(cache.find("huge"));
  EXPECT_TRUE(cache.find("key11"));
}

TEST(KernelCache, clear_removes_entries_and_nothing_else) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "notes.txt") << "mine";
  KernelCache cache(folder.path());
  cache.store("a", code_of("a"));
  cache.store("b", code_of("b"));
  EXPECT_GT(cache.size(), 600u);
  EXPECT_EQ(cache.clear(), 2);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(folder.file_count(), 1u);
}

TEST(KernelCache, a_full_disk_is_told_once_and_leaves_nothing) {
  const TemporaryDirectory folder;
  KernelCache cache(folder.path());
  WarningCounter warnings;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{512, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);  // fails like a full disk
  cache.store("a", code_of("a", 5000));
  cache.store("b", code_of("b", 5000));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  ASSERT_EQ(warnings.texts.size(), 1u);
  EXPECT_NE(warnings.texts[0].find("free some space"), std::string::npos) << warnings.texts[0];
  EXPECT_EQ(folder.file_count(), 0u);
  cache.store("a", code_of("a", 5000));
  EXPECT_TRUE(cache.find("a"));
}

/// Stores and finds at random; the exit status says whether a find gave other code than was stored.
[[noreturn]] void hammer(const std::string& path, uint64_t seed, int rounds) {
  set_log_callback([](LogLevel, std::string_view) {});
  KernelCache cache(path, 60'000);
  Random random(seed);
  for (int i = 0; i < rounds; ++i) {
    const std::string key = "key" + std::to_string(random.integer(0, 40));
    if (random.chance(0.4)) cache.store(key, code_of(key, 2000));
    const auto code = cache.find(key);
    if (code && *code != code_of(key, 2000)) ::_exit(1);
    if (random.chance(0.002)) cache.clear();
  }
  ::_exit(0);
}

TEST(KernelCache, two_processes_share_one_directory) {
  const TemporaryDirectory folder;
  pid_t children[2];
  for (int c = 0; c < 2; ++c) {
    children[c] = ::fork();
    if (children[c] == 0) hammer(folder / "shared", static_cast<uint64_t>(c) + 1, 3000);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_LE(KernelCache(folder / "shared").size(), 2u * 60'000u);
}

TEST(KernelCache, threads_share_one_cache) {
  const TemporaryDirectory folder;
  KernelCache cache(folder.path(), 60'000);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Random random(static_cast<uint64_t>(t));
      for (int i = 0; i < 500; ++i) {
        const std::string key = "key" + std::to_string(random.integer(0, 40));
        if (random.chance(0.5)) cache.store(key, code_of(key, 2000));
        const auto code = cache.find(key);
        if (code && *code != code_of(key, 2000)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace graft
