// SPDX-License-Identifier: Apache-2.0
// Operands of a library call as oneDNN describes memory.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "library/call.h"

namespace graft::onednn {

/// Source and result: [batch..., rows, depth or columns] of a product, [images, channels, positions...] of a
/// convolution.
dnnl::memory::desc activation(const LibraryCall& call, const CallOperand& operand, CallRole role);
/// The same for an operand of a post operation, with extent 1 where it does not vary.
dnnl::memory::desc broadcast(const LibraryCall& call, const CallOperand& operand);
/// [batch..., depth, columns] of a product, [groups, outputs, inputs, kernel...] of a convolution. Throws
/// Error{unsupported} when oneDNN has no format for the panels.
dnnl::memory::desc weights(const LibraryCall& call);

}  // namespace graft::onednn
