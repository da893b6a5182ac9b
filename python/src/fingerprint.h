// SPDX-License-Identifier: Apache-2.0
// Whether a tensor's elements are what they were, told by a hash of all or of some of them.
#pragma once

#include <cstdint>

#include "dlpack_abi.h"

namespace graft_python {

/// A hash of the elements of a tensor in the processor's memory: of at most `samples` blocks of 64 bytes, evenly spread
/// from its first byte to its last, or of all elements where `samples` is negative. 0 where there are none, or where
/// the tensor lies elsewhere. It tells change apart, not intent.
uint64_t fingerprint(const DlTensor& tensor, int64_t samples);

}  // namespace graft_python
