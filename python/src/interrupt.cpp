// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <atomic>
#include <cstdint>

namespace graft_python {
namespace {

std::atomic<unsigned long> main_thread = 0;
std::atomic<graft_session*> running = nullptr;
std::atomic<bool> arrived = false;
std::atomic<int> handlers = 0;  // that are between their first and last lines, on any thread
std::atomic<void (*)(int)> next_plain = nullptr;
std::atomic<void (*)(int, siginfo_t*, void*)> next_informed = nullptr;
static_assert(std::atomic<graft_session*>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

/// Ends the run and passes the signal on to whom it was for.
void handle(int signal, siginfo_t* info, void* context) {
  handlers.fetch_add(1);
  if (graft_session* session = running.load()) {
    arrived.store(true);
    graft_session_cancel(session);
  }
  if (const auto next = next_informed.load()) {
    next(signal, info, context);
  } else if (const auto plain = next_plain.load()) {
    plain(signal);
  }
  handlers.fetch_sub(1);
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == handle;
}

/// The action that was there before ours.
struct sigaction before_ours;

/// Puts our handler in front of the one that is there, if there is any.
bool install() {
  struct sigaction present {};
  if (sigaction(SIGINT, nullptr, &present) != 0 || is_ours(present)) return false;
  const bool informed = (present.sa_flags & SA_SIGINFO) != 0;
  if (!informed && (present.sa_handler == SIG_DFL || present.sa_handler == SIG_IGN)) return false;
  before_ours = present;
  next_informed.store(informed ? present.sa_sigaction : nullptr);
  next_plain.store(informed ? nullptr : present.sa_handler);
  struct sigaction ours = present;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = handle;
  return sigaction(SIGINT, &ours, nullptr) == 0;
}

/// Takes our handler away, unless another was put in its place meanwhile.
void remove() {
  struct sigaction present {};
  if (sigaction(SIGINT, nullptr, &present) == 0 && is_ours(present)) sigaction(SIGINT, &before_ours, nullptr);
}

void after_fork() {
  if (main_thread.load() != 0) main_thread.store(static_cast<unsigned long>(pthread_self()));
  running.store(nullptr);
  handlers.store(0);
}

}  // namespace

InterruptScope::InterruptScope(graft_session* session)
    : on_main_thread_(static_cast<unsigned long>(pthread_self()) == main_thread.load(std::memory_order_relaxed)) {
  if (!on_main_thread_) return;
  arrived.store(false);
  outer_ = running.exchange(session);
  installed_ = install();
}

InterruptScope::~InterruptScope() {
  if (!on_main_thread_) return;
  if (installed_) remove();
  running.store(outer_);
  // A handler on another thread may still hold the session, which may end next.
  while (handlers.load() != 0) sched_yield();
}

bool InterruptScope::interrupted() const { return on_main_thread_ && arrived.load(); }

void set_main_thread(unsigned long identifier) {
  static const bool once = pthread_atfork(nullptr, nullptr, after_fork) == 0;
  static_cast<void>(once);
  main_thread.store(identifier);
}

}  // namespace graft_python
