// SPDX-License-Identifier: Apache-2.0
#include "trap.h"

#include <string>

#include "cluster.h"
#include "memory.h"

namespace graft::emulator {
namespace {

// Of its own, since the stack of a thread may be what has run out.
alignas(16) char handler_stack[64 << 10];

std::string describe(int number, const void* address) {
  if (number == SIGILL) return "a misaligned address, or an index beyond an array";  // -fsanitize=alignment,bounds
  if (number == SIGFPE) return "an integer division that traps";
  const Thread* thread = cluster().current();
  if (thread && thread->fiber.overflows_at(address)) return "a thread's local memory is larger than its stack";
  return "an illegal memory access: " + describe_address(address);
}

void handle(int number, siginfo_t* info, void*) {
  if (!cluster().current()) {  // not a kernel: let it happen again
    signal(number, SIG_DFL);
    return;
  }
  fail(describe(number, info->si_addr));
}

}  // namespace

TrapScope::TrapScope() {
  stack_t stack{};
  stack.ss_sp = handler_stack, stack.ss_size = sizeof handler_stack;
  sigaltstack(&stack, &stack_before_);
  struct sigaction action {};
  action.sa_sigaction = &handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (int i = 0; i < 4; ++i) sigaction(kSignals[i], &action, &before_[i]);
}

TrapScope::~TrapScope() {
  for (int i = 0; i < 4; ++i) sigaction(kSignals[i], &before_[i], nullptr);
  sigaltstack(&stack_before_, nullptr);
}

}  // namespace graft::emulator
