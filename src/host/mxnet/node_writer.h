// SPDX-License-Identifier: Apache-2.0
// From a node of MXNet's graph to one of graft_host.h, with the graphs that it has (_foreach).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graft/graft_host.h"
#include "mxnet/lib_api.h"

namespace graft::extension {

using GraphHandle = std::unique_ptr<graft_host_graph, void (*)(graft_host_graph*)>;

/// An empty graph of MXNet's operators.
GraphHandle new_host_graph();

/// Adds the node with its values, `name` being unique; its graphs as bodies, by their number. `kept`: why it stays with
/// MXNet, or nothing. Throws Failure.
void add_host_node(graft_host_graph* graph, const mxnet::ext::Node& node, const std::string& name,
                   const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs,
                   const std::string& kept = "");

}  // namespace graft::extension
