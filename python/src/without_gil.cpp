// SPDX-License-Identifier: Apache-2.0
#include "without_gil.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>

#include "failure.h"

namespace graft_python {
namespace {

struct Calls {
  std::mutex mutex;
  std::condition_variable all_back;
  OutsideCall* first = nullptr;
  bool ending = false;
};

Calls& calls() {
  static Calls& one = *new Calls;  // threads may still ask while the process ends
  return one;
}

/// Of the calls of other threads nothing goes on in a child, nor does anybody hold the lock.
void after_fork() { new (&calls()) Calls; }

}  // namespace

OutsideCall::OutsideCall(graft_session* running) : running_(running) {
  static const bool once = pthread_atfork(nullptr, nullptr, after_fork) == 0;
  static_cast<void>(once);
  const std::lock_guard lock(calls().mutex);
  if (calls().ending) throw Failure(GRAFT_CANCELLED, "the Python interpreter is ending");
  next_ = calls().first;
  if (next_) next_->previous_ = this;
  calls().first = this;
}

OutsideCall::~OutsideCall() {
  const std::lock_guard lock(calls().mutex);
  (previous_ ? previous_->next_ : calls().first) = next_;
  if (next_) next_->previous_ = previous_;
  if (!calls().first) calls().all_back.notify_all();
}

void end_of_interpreter() {
  PyThreadState* const state = PyEval_SaveThread();
  {
    std::unique_lock lock(calls().mutex);
    calls().ending = true;
    // Again and again, since a run that is about to begin cannot be ended yet.
    while (calls().first) {
      for (const OutsideCall* call = calls().first; call; call = call->next_) graft_session_cancel(call->running_);
      calls().all_back.wait_for(lock, std::chrono::milliseconds(10));
    }
  }
  PyEval_RestoreThread(state);
}

}  // namespace graft_python
