// SPDX-License-Identifier: Apache-2.0
// From a symbol's graph to the abstract one of graft_host.h.
#pragma once

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
  std::string note;                      ///< what the caller should know about sizes
};

/// Parameters become constants: variables with an array that operators take as weights, or, where the caller names the
/// data, all others. The first axis of the data is the batch, symbolic where MXNet infers shapes for other ones, too.
/// Throws Failure for what is not known or does not fit.
HostGraph read_graph(mxnet::ext::Graph& graph, const Spec& spec);

}  // namespace graft::extension
