// SPDX-License-Identifier: Apache-2.0
// How random numbers differ from run to run: operators without a seed read a state that each run draws anew.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace graft {

/// The input of an operator that takes a state, where it has no seed.
inline constexpr std::string_view kRandomState = "random_state?";

/// Whether no step makes what the node gives: a session draws it, bit by bit, before each run.
inline bool is_drawn(const Node& node) { return node.domain == "graft" && node.op == "Seed"; }

}  // namespace graft
