// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while a run goes on outside of the interpreter.
#pragma once

#include "graft/graft_c.h"

namespace graft_python {

/// Lets Ctrl-C end a run of the session at once while it lives: Python's own handler, which the signal reaches as ever,
/// only leaves a note for the interpreter, and the interpreter waits for the run. Does nothing on other threads than
/// Python's main one, which alone answers signals, and where nobody handles the signal. Neither makes it take the GIL.
class InterruptScope {
 public:
  explicit InterruptScope(graft_session* session);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  /// Whether the signal has come since it was made.
  bool interrupted() const;

 private:
  bool on_main_thread_;
  bool installed_ = false;
  graft_session* outer_ = nullptr;  ///< of the scope around this one: a run may call back into Python
};

/// Tells which thread is Python's main one, by its identifier of `threading`. A child after fork knows its own.
void set_main_thread(unsigned long identifier);

}  // namespace graft_python
