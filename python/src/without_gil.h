// SPDX-License-Identifier: Apache-2.0
// Leaving the interpreter for the time of a call, so that it may end meanwhile.
#pragma once

#include <Python.h>

namespace graft_python {

/// Lets other Python threads run while it lives. When the interpreter ends, `end_of_interpreter` waits for all that
/// live: a thread that came back later would be ended by Python inside of C++ frames. Throws Failure{cancelled} once
/// that has begun.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// What `atexit` calls, with the GIL held: calls that go on are waited for, new ones are refused.
void end_of_interpreter();

}  // namespace graft_python
