// SPDX-License-Identifier: Apache-2.0
// The graphs in a node's attributes, and what they take from the graph around them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace graft {

/// How deep graphs may be nested in attributes.
inline constexpr int kDeepestGraph = 16;
/// What is said of a node that is nested deeper.
std::string too_deep_graphs();

/// A body. A node's inputs end with the values that its bodies capture, body after body in the order of the attributes'
/// names, and `captures` counts them; they are the last inputs of the body.
struct NodeBody {
  std::string attribute;
  std::shared_ptr<const Graph> graph;
  size_t first_capture = 0, captures = 0;  ///< among the node's inputs

  std::vector<ValueId> captured_by(const Node& node) const {
    const auto first = node.inputs.begin() + static_cast<std::ptrdiff_t>(first_capture);
    return {first, first + static_cast<std::ptrdiff_t>(captures)};
  }
};

/// The node's bodies, in the order of the attributes' names.
std::vector<NodeBody> bodies_of(const Node& node);
/// The number of inputs that are the node's own, before the captures.
size_t own_input_count(const Node& node);
/// Whether the node runs its bodies: If, or Loop with the limit and the condition that it may leave out.
bool is_control_flow(const Node& node);
/// Whether the body of a Loop gives the condition that it was given, so that only the limit ends the loop.
bool keeps_condition(const Graph& body);

}  // namespace graft
