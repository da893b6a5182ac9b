// SPDX-License-Identifier: Apache-2.0
// Several optima of a dimension: sizes that a network is compiled for, of which a run takes the tightest.
#pragma once

#include <cstdint>
#include <vector>

#include "base/size.h"
#include "graph/graph.h"

namespace graft {

/// How many optima a dimension may have, and how many combinations of them a network: each is compiled.
constexpr size_t kMostOptima = 16;

/// The optima of a range, ascending.
std::vector<int64_t> optima_of(const Graph::Range& range);

/// The sizes that a graph is compiled for: each combination of the optima of its dimensions, the main one first. One
/// element without any entry where no dimension has several. Throws invalid_argument where they are too many or lie
/// outside of their range, and where a run could not see the dimension's size, as no input has it as an axis.
std::vector<Bindings> combined_optima(const Graph& graph);
/// The graph with these optima as the only ones.
Graph at_optima(const Graph& graph, const Bindings& optima);

}  // namespace graft
