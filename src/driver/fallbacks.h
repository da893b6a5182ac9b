// SPDX-License-Identifier: Apache-2.0
// Parts of a model that run in the host framework although they were meant to be engines: counted, and said once.
#pragma once

#include <cstdint>
#include <string>

namespace graft {

/// Counts one, and warns of it unless the same was said before. Thread-safe.
void count_fallback(const std::string& what, const std::string& reason);
/// How many there have been in this process.
uint64_t fallback_count();

}  // namespace graft
