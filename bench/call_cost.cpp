// SPDX-License-Identifier: Apache-2.0
// How long a call of the C interface takes from C++, for bench/python_call.py.
#include <time.h>

#include "../include/graft/graft_c.h"

namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

/// Processor seconds of one of `count` runs through `run`, a pointer to graft_session_run; negative when one failed.
extern "C" double seconds_of_run(decltype(&graft_session_run) run, graft_session* session, const graft_tensor* inputs,
                                 size_t input_count, graft_tensor* outputs, size_t output_count, int count) {
  graft_error error;
  const double begin = thread_seconds();
  for (int i = 0; i < count; ++i) {
    if (run(session, inputs, input_count, outputs, output_count, nullptr, &error) != GRAFT_OK) return -1;
  }
  return (thread_seconds() - begin) / count;
}
