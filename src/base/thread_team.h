// SPDX-License-Identifier: Apache-2.0
// The one thread team that kernels, libraries and loops of our own run on.
#pragma once

#include <cstdint>

namespace graft {

/// Non-owning reference to a callable `void(int64_t begin, int64_t end, int thread)`.
class RangeFunction {
 public:
  template <class F>
  RangeFunction(const F& f)
      : object_(&f), call_([](const void* o, int64_t b, int64_t e, int t) { (*static_cast<const F*>(o))(b, e, t); }) {}
  void operator()(int64_t begin, int64_t end, int thread) const { call_(object_, begin, end, thread); }

 private:
  const void* object_;
  void (*call_)(const void*, int64_t, int64_t, int);
};

/// Splits [0, count) over up to `threads` threads of the process-wide team and waits. Each begins with its part of an
/// even division, the same for loops of as many turns, and goes on with what others have left; `thread` is below
/// `threads`. Inline for one thread, and when another caller has the team; with the threads that there are when no more
/// can be made. Safe from any thread and in a child after fork. `f` must not throw.
void parallel_for(int threads, int64_t count, RangeFunction f);

}  // namespace graft
