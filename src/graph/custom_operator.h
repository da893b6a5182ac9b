// SPDX-License-Identifier: Apache-2.0
// Operators that users define (docs/OWN_OPERATORS.md). A node of one carries the definition as text in an attribute, so
// that it goes wherever the node goes: through passes, into bodies of loops, the graph's text, plans and ONNX files.
#pragma once

#include <memory>
#include <string_view>

#include "graph/op_def.h"

namespace graft {

/// The attribute that holds the text of a definition.
inline constexpr std::string_view kDefinitionAttribute = "definition";

/// The text of the definition that a node carries, or null.
const std::string* carried_definition(const Node& node);
/// The operator of a node: the one whose definition it carries, or that of the table; null when there is none.
/// Throws invalid_model naming the node, line and column when what it carries is no definition of its operator.
std::shared_ptr<const OpDef> operator_of(const Node& node);

}  // namespace graft
