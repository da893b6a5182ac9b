// SPDX-License-Identifier: Apache-2.0
#include "without_gil.h"

#include <condition_variable>
#include <mutex>

#include "failure.h"

namespace graft_python {
namespace {

struct Calls {
  std::mutex mutex;
  std::condition_variable all_back;
  int away = 0;
  bool ending = false;
};

Calls& calls() {
  static Calls& one = *new Calls;  // threads may still ask while the process ends
  return one;
}

}  // namespace

WithoutGil::WithoutGil() {
  {
    const std::lock_guard lock(calls().mutex);
    if (calls().ending) throw Failure(GRAFT_CANCELLED, "the Python interpreter is ending");
    ++calls().away;
  }
  state_ = PyEval_SaveThread();
}

WithoutGil::~WithoutGil() {
  PyEval_RestoreThread(state_);
  const std::lock_guard lock(calls().mutex);
  if (--calls().away == 0) calls().all_back.notify_all();
}

void end_of_interpreter() {
  PyThreadState* const state = PyEval_SaveThread();
  {
    std::unique_lock lock(calls().mutex);
    calls().ending = true;
    calls().all_back.wait(lock, [] { return calls().away == 0; });
  }
  PyEval_RestoreThread(state);
}

}  // namespace graft_python
