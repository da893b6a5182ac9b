// SPDX-License-Identifier: Apache-2.0
// A symbol as the conversion to mixed precision sees it.
#pragma once

#include <map>
#include <vector>

#include "amp/graph.h"
#include "export/mxnet/mixed_precision.h"

namespace graft::mxnet {

/// The abstract graph, and where its parts come from. Outputs that nothing reads have no value.
struct SymbolView {
  amp::Graph graph;
  std::vector<int> nodes;                          ///< by node of the graph: the symbol's
  std::vector<SymbolEntry> entries;                ///< by value: the entry, of version 0
  std::map<std::pair<int, int>, int> value_of;     ///< by node and output of the symbol
  std::vector<bool> is_parameter;                  ///< by node of the symbol
};

/// Throws as convert_symbol does.
SymbolView view_symbol(const Symbol& symbol, const amp::Request& request, const Parameters* parameters);

}  // namespace graft::mxnet
