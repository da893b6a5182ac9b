// SPDX-License-Identifier: Apache-2.0
// Work shared out among threads, also where the system gives none and where work fails.
#include "base/call_in_parallel.h"

#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread_team.h"

namespace graft {
namespace {

/// The exit status of `body`, in a child that may make no threads; -1 when it was ended, 77 where that cannot be had.
template <class Body>
int status_without_threads(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    const rlimit none = {1, 1};
    // The limit is not one of the superuser's.
    if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) _exit(77);
    if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(77);
    try {
      std::thread([] {}).join();
      _exit(77);
    } catch (const std::system_error&) {
      _exit(body());
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CallInParallel, makes_every_call_once) {
  for (const int threads : {0, 1, 2, 5}) {
    for (const size_t count : {0, 1, 2, 100}) {
      std::vector<std::atomic<int>> calls(count);
      call_in_parallel(count, threads, [&](size_t i) { ++calls[i]; });
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(calls[i], 1) << i << " of " << count << ", " << threads;
    }
  }
}

TEST(CallInParallel, uses_several_threads) {
  std::atomic<int> waiting{0};
  // Returns only when two are here at once.
  call_in_parallel(2, 2, [&](size_t) {
    ++waiting;
    while (waiting < 2) std::this_thread::yield();
  });
  EXPECT_EQ(waiting, 2);
}

TEST(CallInParallel, hands_on_whatever_work_throws) {
  for (const int threads : {1, 3}) {
    EXPECT_THROW(call_in_parallel(8, threads, [](size_t i) { if (i == 5) throw std::bad_alloc(); }), std::bad_alloc);
    EXPECT_THROW(call_in_parallel(8, threads, [](size_t) { throw std::runtime_error("each"); }), std::runtime_error);
    EXPECT_THROW(call_in_parallel(8, threads, [](size_t) { throw 3; }), int);
  }
}

TEST(CallInParallel, leaves_out_what_comes_after_a_failure) {
  int calls = 0;
  EXPECT_THROW(call_in_parallel(100, 1, [&](size_t i) { if (++calls, i == 3) throw std::bad_alloc(); }),
               std::bad_alloc);
  EXPECT_EQ(calls, 4);
}

TEST(CallInParallel, goes_on_alone_when_no_threads_can_be_made) {
  const int status = status_without_threads([] {
    int calls = 0;
    call_in_parallel(10, 4, [&](size_t) { ++calls; });
    return calls == 10 ? 0 : 1;
  });
  if (status == 77) GTEST_SKIP() << "this user's threads cannot be limited";
  EXPECT_EQ(status, 0);
}

TEST(CallInParallel, loops_of_the_team_go_on_too) {
  const int status = status_without_threads([] {
    std::atomic<int64_t> sum{0};
    for (int round = 0; round < 3; ++round) {
      parallel_for(4, 1000, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) sum += i;
      });
    }
    return sum == 3 * 499500 ? 0 : 1;
  });
  if (status == 77) GTEST_SKIP() << "this user's threads cannot be limited";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace graft
