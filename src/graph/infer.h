// SPDX-License-Identifier: Apache-2.0
// Types, shapes and known contents of values, from the operators' definitions.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace graft {

/// Infers the outputs of one node whose inputs have been inferred. Returns why nothing could be said (no definition,
/// unknown rank of an input, outside what the definition covers), or nothing when all is known.
/// Throws invalid_model naming the node when its inputs contradict the operator.
std::optional<std::string> infer_node(Graph& graph, int index);

/// Infers all nodes in order; what cannot be inferred keeps what it has. Small integer tensors (at most 1024 elements)
/// get `content` where their elements follow from constants and sizes.
void infer_types(Graph& graph);

/// The elements of a small integer or bool value as sizes: from its constant, or its `content`.
std::optional<std::vector<Size>> known_content(const Value& value);

}  // namespace graft
