// SPDX-License-Identifier: Apache-2.0
// Sharing a library call out: slices that threads compute each on its own.
#pragma once

#include <vector>

#include "library/call.h"
#include "library/schedule.h"

namespace graft {

/// Cuts a call with concrete sizes into at most about `pieces` calls that together compute the same, none of them empty
/// and no sum split. Their operands begin at offsets of their own. Nothing when the result has no elements.
std::vector<LibraryCall> slice(const LibraryCall& call, LibraryCut cut, int64_t pieces);

}  // namespace graft
