// SPDX-License-Identifier: Apache-2.0
// Operators of torch as the conversion to mixed precision sees them.
#pragma once

#include <string>
#include <vector>

#include "amp/graph.h"
#include "amp/rules.h"
#include "frontend/foreign_graph.h"

namespace graft::pt2 {

/// The type of values that are no tensors of floats, and of those whose type is not known.
constexpr DType kNoFloat = DType::kString;

/// An argument of a node under the name that torch's schema has for it; empty where that is not known.
struct NamedArgument {
  std::string name;
  const frontend::Argument* argument = nullptr;
};

/// The node; its inputs are what its arguments read, in their order. `values`: by value of its graph. An operator
/// without a rule gets and gives what it did before.
amp::Node aten_node(const frontend::ForeignNode& node, const std::vector<NamedArgument>& arguments,
                    const std::vector<amp::Value>& values, const amp::DefaultLists& lists);

}  // namespace graft::pt2
