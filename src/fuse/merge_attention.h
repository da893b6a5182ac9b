// SPDX-License-Identifier: Apache-2.0
// Attention that is spelled out as products and a softmax.
#pragma once

#include "fuse/fused_program.h"

namespace graft {

/// scores = product of two tensors, whatever is made of them element by element, a softmax of their rows, a product
/// with a third tensor: these steps -> one, where it is an attention (fuse/attention) and nothing else reads what lies
/// between. Biases and masks of any shape, factors by head and sizes of any kind come along as they are; a
/// transposition behind it stores its rows. The division by the sum of exponentials moves behind the product.
void merge_attention(FusedProgram& program);

}  // namespace graft
