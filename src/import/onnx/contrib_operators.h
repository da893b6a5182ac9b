// SPDX-License-Identifier: Apache-2.0
// Operators of ONNX Runtime's domains com.microsoft and com.microsoft.nchwc, which its optimiser and exporters write,
// and of ai.onnx.ml.
#pragma once

#include <string_view>
#include <vector>

#include "import/onnx/contrib_call.h"

namespace graft {

/// All of them, by domain and name.
const std::vector<ContribOperator>& contrib_operators();
/// The operator that a node of this domain and name is, or null. Its own domain apart, ONNX Runtime has
/// SimplifiedLayerNormalization in ai.onnx.
const ContribOperator* find_contrib_operator(std::string_view domain, std::string_view name);
/// Appends the node as nodes of ai.onnx. Throws invalid_model or unsupported naming the node.
void expand_contrib(const ContribOperator& op, NodeWriter& writer, const Node& node);

}  // namespace graft
