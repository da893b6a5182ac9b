// SPDX-License-Identifier: Apache-2.0
// Leaving the interpreter for the time of a call, so that it may end meanwhile.
#pragma once

#include <Python.h>

#include "graft/graft_c.h"

namespace graft_python {

/// Lets other Python threads run while it lives. When the interpreter ends, `end_of_interpreter` waits for all that
/// live: a thread that came back later would be ended by Python inside of C++ frames. Throws Failure{cancelled} once
/// that has begun.
class WithoutGil {
 public:
  /// `running`: the session whose run this is, which is then ended rather than waited for.
  explicit WithoutGil(graft_session* running = nullptr);
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  friend void end_of_interpreter();
  PyThreadState* state_;
  graft_session* running_;
  WithoutGil *previous_ = nullptr, *next_ = nullptr;  ///< in the list of all that live
};

/// What `atexit` calls, with the GIL held: runs that go on are ended, other calls waited for, new ones refused.
void end_of_interpreter();

}  // namespace graft_python
