// SPDX-License-Identifier: Apache-2.0
// What Python is told while the library compiles.
#pragma once

#include <cstdint>

namespace graft_python {

/// graft_progress_function: `context` is a Python callable or None. Stops compiling with a false result, an exception,
/// or a signal (Ctrl-C) that arrived meanwhile; the exception stays pending.
int32_t tell_python(void* context, const char* stage, const char* step, int32_t done, int32_t total);

}  // namespace graft_python
