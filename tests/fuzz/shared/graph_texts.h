// SPDX-License-Identifier: Apache-2.0
// Texts of graphs to begin from, and changes to them.
#pragma once

#include <string>
#include <vector>

#include "base/random.h"

namespace graft::fuzz {

/// Every sample of every operator, with inputs of constant and of symbolic sizes, and small networks. No constant's
/// elements lie outside of the text.
const std::vector<std::string>& graph_seeds();
/// One of them.
const std::string& draw_graph(Random& random);

/// A few changes; operators that come from other graphs read values of this one.
std::string mutate_graph(std::string text, Random& random);

}  // namespace graft::fuzz
