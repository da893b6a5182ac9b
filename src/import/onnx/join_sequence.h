// SPDX-License-Identifier: Apache-2.0
// Sequences whose tensors the model names, which therefore need not be made.
#pragma once

#include "import/onnx/convert_opset.h"

namespace graft {

/// ConcatFromSequence(SequenceConstruct(a, b ...)) -> Concat(a, b ...), each with an axis of its own first where
/// `new_axis` says so. False, and nothing added, for other nodes and other sequences.
bool join_sequence(NodeWriter& writer, const Node& node);

}  // namespace graft
