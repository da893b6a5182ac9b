// SPDX-License-Identifier: Apache-2.0
// While a kernel runs, what the processor refuses (memory that is not there, a trap of the kernel's own checks) ends
// the launch with an error instead of the process.
#pragma once

#include <signal.h>

namespace graft::emulator {

/// The handlers are in place while this lives.
class TrapScope {
 public:
  TrapScope();
  ~TrapScope();
  TrapScope(const TrapScope&) = delete;
  TrapScope& operator=(const TrapScope&) = delete;

 private:
  static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  struct sigaction before_[4];
  stack_t stack_before_;
};

}  // namespace graft::emulator
