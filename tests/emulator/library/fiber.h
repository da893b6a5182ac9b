// SPDX-License-Identifier: Apache-2.0
// Stacks that one thread of the host switches between: each thread of an emulated block has one.
#pragma once

#include <cstddef>

namespace graft::emulator {

/// A function that runs on a stack of its own and may stop in the middle. The stack, with a page before it that nothing
/// may touch, is kept for the next function.
class Fiber {
 public:
  static constexpr size_t kStackBytes = 128 << 10;

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Makes the next resume() call body(argument). What ran here before is forgotten, without destructors.
  void start(void (*body)(void*), void* argument);
  /// Runs until the next pause(), or to the end of the body.
  void resume();
  /// Back to where resume() was called; called on the fiber's own stack.
  void pause();
  /// Whether an address lies in the stack.
  bool holds(const void* address) const { return address >= memory_ && address < memory_ + kStackBytes; }
  /// Whether an address lies in the page that says that the stack is too small.
  bool overflows_at(const void* address) const;

 private:
  static void begin(Fiber* fiber);

  char* memory_ = nullptr;
  void* own_ = nullptr;     ///< the stack pointer of the fiber while it is paused
  void* caller_ = nullptr;  ///< and of whom resumed it
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
};

}  // namespace graft::emulator
