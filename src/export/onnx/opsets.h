// SPDX-License-Identifier: Apache-2.0
// Which opset of ONNX has what a node needs.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/graph.h"

namespace graft {

/// Whether ONNX lets an operator have bf16 wherever it has f32.
bool takes_bfloat16(std::string_view op, int64_t opset);

/// The oldest opset in which an operator of ai.onnx has the meaning, the attributes and the types that the node has.
/// `defined` is that of the operator's definition: the answer for operators of which nothing else is known.
int64_t oldest_opset(const Graph& graph, const Node& node, int64_t defined);

}  // namespace graft
