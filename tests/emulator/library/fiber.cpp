// SPDX-License-Identifier: Apache-2.0
#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#ifndef __x86_64__
#error "write graft_emulator_switch for this processor"
#endif

// Pushes what a function has to preserve, stores the stack pointer in *save, and goes on with another stack.
extern "C" void graft_emulator_switch(void** save, void* next);
asm(R"(
.text
.globl graft_emulator_switch
.hidden graft_emulator_switch
.type graft_emulator_switch, @function
graft_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size graft_emulator_switch, .-graft_emulator_switch
)");

// Where a fiber starts: r12 holds its argument, r13 the function.
extern "C" void graft_emulator_enter();
asm(R"(
.text
.globl graft_emulator_enter
.hidden graft_emulator_enter
.type graft_emulator_enter, @function
graft_emulator_enter:
  xorl %ebp, %ebp
  movq %r12, %rdi
  call *%r13
  ud2
.size graft_emulator_enter, .-graft_emulator_enter
)");

namespace graft::emulator {
namespace {

constexpr size_t kGuardBytes = 4096;

}  // namespace

Fiber::Fiber() {
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<char*>(memory);
  mprotect(memory_, kGuardBytes, PROT_NONE);
}

Fiber::~Fiber() { munmap(memory_, kStackBytes); }

void Fiber::start(void (*body)(void*), void* argument) {
  body_ = body, argument_ = argument;
  auto* top = reinterpret_cast<uintptr_t*>(memory_ + kStackBytes);
  *--top = 0, *--top = 0;  // calls want a multiple of 16 bytes
  *--top = reinterpret_cast<uintptr_t>(&graft_emulator_enter);
  *--top = 0;                                           // rbp
  *--top = 0;                                           // rbx
  *--top = reinterpret_cast<uintptr_t>(this);           // r12
  *--top = reinterpret_cast<uintptr_t>(&Fiber::begin);  // r13
  *--top = 0;                                           // r14
  *--top = 0;                                           // r15
  own_ = top;
}

void Fiber::begin(Fiber* fiber) {
  fiber->body_(fiber->argument_);
  fiber->pause();
}

void Fiber::resume() { graft_emulator_switch(&caller_, own_); }

void Fiber::pause() { graft_emulator_switch(&own_, caller_); }

bool Fiber::overflows_at(const void* address) const { return address >= memory_ && address < memory_ + kGuardBytes; }

}  // namespace graft::emulator
