// SPDX-License-Identifier: Apache-2.0
#include "base/call_in_parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace graft {
namespace {

/// The calls that threads take one after the other.
class Calls {
 public:
  Calls(size_t count, const std::function<void(size_t)>& work) : count_(count), work_(work) {}

  void take() noexcept {
    for (size_t i = next_++; i < count_; i = next_++) {
      try {
        work_(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        next_ = count_;
      }
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  const size_t count_;
  const std::function<void(size_t)>& work_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

/// Threads that have all ended where this does.
class Helpers {
 public:
  Helpers(size_t count, Calls& calls) {
    try {
      threads_.reserve(count);
      while (threads_.size() < count) threads_.emplace_back([&calls] { calls.take(); });
    } catch (const std::system_error&) {
      // Those that there are do.
    } catch (const std::bad_alloc&) {
      // Likewise.
    }
  }
  ~Helpers() {
    for (std::thread& thread : threads_) thread.join();
  }
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

 private:
  std::vector<std::thread> threads_;
};

}  // namespace

void call_in_parallel(size_t count, int threads, const std::function<void(size_t)>& work) {
  if (count == 0) return;
  Calls calls(count, work);
  {
    const Helpers helpers(std::min(count, static_cast<size_t>(std::max(1, threads))) - 1, calls);
    calls.take();
  }
  calls.rethrow();
}

}  // namespace graft
