// SPDX-License-Identifier: Apache-2.0
// Leaving the interpreter for the time of a call, so that it may end meanwhile.
#pragma once

#include <Python.h>

#include "graft/graft_c.h"

namespace graft_python {

/// Something that goes on outside of the interpreter, which waits for it when it ends: a thread that came back later
/// would be ended by Python inside of C++ frames. Made with the GIL held; throws Failure{cancelled} once the
/// interpreter ends.
class OutsideCall {
 public:
  /// `running`: the session whose run this is, which is then ended rather than waited for.
  explicit OutsideCall(graft_session* running);
  ~OutsideCall();
  OutsideCall(const OutsideCall&) = delete;
  OutsideCall& operator=(const OutsideCall&) = delete;

 private:
  friend void end_of_interpreter();
  graft_session* running_;
  OutsideCall *previous_ = nullptr, *next_ = nullptr;  ///< in the list of all that live
};

/// Lets other Python threads run while it lives, as an OutsideCall.
class WithoutGil {
 public:
  explicit WithoutGil(graft_session* running = nullptr) : call_(running), state_(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(state_); }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  OutsideCall call_;  // ends with the GIL held
  PyThreadState* state_;
};

/// What `atexit` calls, with the GIL held: runs that go on are ended, other calls waited for, new ones refused.
void end_of_interpreter();

}  // namespace graft_python
