// SPDX-License-Identifier: Apache-2.0
// From a symbol's graph to the abstract one of graft_host.h.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "batch.h"
#include "graft/graft_host.h"
#include "mxnet/lib_api.h"
#include "node_writer.h"
#include "spec.h"
#include "tensor_type.h"

namespace graft::extension {

struct HostGraph {
  GraphHandle handle{nullptr, graft_host_graph_destroy};
  std::vector<Entry> entries;            ///< by value of the host's graph
  std::vector<TensorType> types;         ///< by value
  std::vector<mxnet::ext::Node*> nodes;  ///< by node of the host's graph
  std::vector<size_t> unknown;           ///< nodes with graphs of whose results MXNet knows no shapes before a run
  std::string note;                      ///< what the caller should know about sizes
};

/// Parameters become constants: variables with an array that operators take as weights, or, where the caller names the
/// data, all others. The first axis of the data is the batch, symbolic where MXNet infers shapes for other ones, too.
/// `running`: nodes that stay with MXNet, which knows the shapes of their results only while running; what reads these
/// stays, too, since MXNet 1.9 hands no such shape to an extension. Throws Failure for what does not fit.
HostGraph read_graph(mxnet::ext::Graph& graph, const Spec& spec,
                     const std::set<const mxnet::ext::Node*>& running = {});

}  // namespace graft::extension
