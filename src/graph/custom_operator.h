// SPDX-License-Identifier: Apache-2.0
// Operators that users define (docs/OWN_OPERATORS.md). A node of one carries the definition as text in an attribute, so
// that it goes wherever the node goes: through passes, into bodies of loops, the graph's text, plans and ONNX files.
#pragma once

#include <map>
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
/// Gives the nodes of the domain graft, those in bodies too, the definitions of their operators. What is written as a
/// graph of such nodes is a composition whose parts are definitions.
void carry_definitions(Graph& graph, const std::map<std::string_view, std::string_view>& definitions);

}  // namespace graft
