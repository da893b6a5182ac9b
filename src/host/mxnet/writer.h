// SPDX-License-Identifier: Apache-2.0
// Engines in place of the segments of a symbol's graph.
#pragma once

#include <vector>

#include "graft/graft_host.h"
#include "reader.h"

namespace graft::extension {

/// A segment and its engine.
struct Part {
  const graft_host_segment* segment;
  graft_engine* engine;
};

/// Puts a node for each part into the graph, and its plan beside it as a new argument. What nothing uses any more is
/// left unconnected, and MXNet drops it.
void write_engines(mxnet::ext::Graph& graph, const HostGraph& host, const std::vector<Part>& parts,
                   const Spec& spec);

}  // namespace graft::extension
