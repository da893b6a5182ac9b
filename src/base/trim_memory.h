// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace graft {

/// Gives memory that was freed back to the system where the C library would keep it (glibc), in milliseconds. For the
/// end of work that needed far more than what it leaves. From any thread.
void trim_memory();

}  // namespace graft
