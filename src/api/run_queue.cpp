// SPDX-License-Identifier: Apache-2.0
#include "api/run_queue.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace graft::api_detail {
namespace {

std::atomic<uint64_t> forks_before{0};
[[maybe_unused]] const int forks_are_counted = pthread_atfork(nullptr, nullptr, [] { ++forks_before; });

}  // namespace

uint64_t forks() noexcept { return forks_before; }

struct RunQueue::State {
  struct Entry {
    uint64_t run = 0;
    Work work;
    bool cancelled = false;
  };

  const pid_t process = getpid();
  std::thread thread;
  std::thread::id id;  // of the thread, also once it is detached
  std::mutex mutex;
  std::condition_variable changed, settled;
  std::deque<Entry> waiting;
  bool ending = false;
  std::function<void()> last;
  std::atomic<uint64_t> running{0};              // 0: none
  std::atomic<bool> running_cancelled{false};
  std::atomic<uint64_t> added{0}, cancelled_up_to{0};

  void loop();
};

void RunQueue::State::loop() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return ending || !waiting.empty(); });
    if (waiting.empty()) break;
    Entry entry = std::move(waiting.front());
    waiting.pop_front();
    running_cancelled = entry.cancelled;
    running = entry.run;
    lock.unlock();
    entry.work();
    entry.work = nullptr;  // while it counts as running: what it holds may be the session itself
    lock.lock();
    running = 0;
    if (waiting.empty()) settled.notify_all();
  }
  const std::function<void()> then = std::move(last);
  lock.unlock();
  if (then) then();
}

RunQueue::RunQueue() : state_(std::make_shared<State>()) {
  const std::lock_guard lock(state_->mutex);  // the thread begins when its identifier is known
  try {
    state_->thread = std::thread([state = state_] { state->loop(); });
  } catch (const std::system_error& error) {
    throw Error(ErrorKind::kDevice,
                fmt::format("the system gave no thread for asynchronous runs ({}): end others, or raise the limit of "
                            "threads (ulimit -u)", error.what()), "graft_session_run_async");
  }
  state_->id = state_->thread.get_id();
}

void RunQueue::finish(const std::function<void()>& stop) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
    cancel_all();
    if (state_->running != 0) stop();
  }
  state_->changed.notify_one();
  state_->thread.join();
}

void RunQueue::finish_inside(std::function<void()> last) {
  const std::lock_guard lock(state_->mutex);
  state_->ending = true;
  state_->last = std::move(last);
  cancel_all();
  state_->thread.detach();
}

void RunQueue::add(Work work, uint64_t* run) {
  {
    const std::lock_guard lock(state_->mutex);
    GRAFT_USER_CHECK(!state_->ending, kCancelled, "the session is ending", "graft_session_run_async");
    state_->waiting.push_back({.run = state_->added + 1, .work = std::move(work)});
    ++state_->added;
    if (run) *run = state_->added;
  }
  state_->changed.notify_one();
}

void RunQueue::settle() const {
  if (inside() || !is_here()) return;
  std::unique_lock lock(state_->mutex);
  state_->settled.wait(lock, [this] { return state_->waiting.empty() && state_->running == 0; });
}

bool RunQueue::inside() const { return is_here() && std::this_thread::get_id() == state_->id; }

bool RunQueue::is_here() const { return state_->process == getpid(); }

void RunQueue::cancel_all() noexcept {
  const uint64_t all = state_->added;
  uint64_t known = state_->cancelled_up_to;
  while (known < all && !state_->cancelled_up_to.compare_exchange_weak(known, all)) {
  }
}

void RunQueue::cancel(uint64_t run, const std::function<void()>& stop) {
  if (!is_here()) return;
  const std::lock_guard lock(state_->mutex);  // the next run cannot begin meanwhile, and be ended in its place
  if (state_->running == run) {
    state_->running_cancelled = true;
    return stop();
  }
  for (State::Entry& entry : state_->waiting) entry.cancelled = entry.cancelled || entry.run == run;
}

bool RunQueue::is_cancelled() const {
  return state_->running_cancelled || state_->running <= state_->cancelled_up_to;
}

}  // namespace graft::api_detail
