// SPDX-License-Identifier: Apache-2.0
// A TorchScript graph as the abstract graph of graft_host.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/jit/ir/ir.h>

#include "graft/graft_host.h"
#include "sizes.h"

namespace graft::torchscript {

/// Both forms of a graph, by each other's indices.
struct HostGraph {
  std::unique_ptr<graft_host_graph, void (*)(graft_host_graph*)> handle{nullptr, graft_host_graph_destroy};
  std::vector<torch::jit::Node*> nodes;
  std::vector<torch::jit::Value*> values;
  std::vector<std::vector<int32_t>> after;  ///< by node: those that have to run before, data apart
  std::vector<bool> counts;                 ///< by node: whether it is a real operator
  torch::jit::Block* block = nullptr;
  /// The blocks of nodes, by node and name, as functions of what they take from around.
  std::map<std::pair<size_t, std::string>, std::unique_ptr<HostGraph>> bodies;
};

/// Reads a graph without calls. Lists that operators are given become arguments; what writes to tensors that others see
/// and what has side effects stays with torch, in its order. A list that is only appended to and read is a value anew
/// with each append, and one that a branch or a loop gives.
HostGraph read_graph(const std::shared_ptr<torch::jit::Graph>& graph, const KnownSizes& sizes);

/// `model.py:12: y = self.conv(x)`
std::string source_of(const torch::jit::Node& node);

/// Calls visit(value) for each value from outside that a node reads, in its blocks, too.
void visit_uses(const torch::jit::Node& node, const std::function<void(torch::jit::Value*)>& visit);
/// Of its blocks alone.
void visit_block_uses(const torch::jit::Node& node, const std::function<void(torch::jit::Value*)>& visit);

}  // namespace graft::torchscript
