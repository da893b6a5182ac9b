// SPDX-License-Identifier: Apache-2.0
// Work in pieces that may take long, throw and start loops of the thread team: compiling and measuring candidates.
#pragma once

#include <cstddef>
#include <functional>

namespace graft {

/// Calls work(0) ... work(count - 1) from up to `threads` threads, the caller's among them, in any order, and returns
/// when all calls have. Goes on with the threads that there are when no more can be made. Rethrows what the first call
/// to fail threw, whatever it is; calls that have not begun by then are left out.
void call_in_parallel(size_t count, int threads, const std::function<void(size_t)>& work);

}  // namespace graft
