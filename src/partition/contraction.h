// SPDX-License-Identifier: Apache-2.0
// A graph without cycles whose nodes are merged while it stays one.
#pragma once

#include <vector>

namespace graft::partition {

/// Clusters of nodes, kept in a topological order. Merging two costs the part of the order that lies between them.
class ContractedGraph {
 public:
  /// `order`: all nodes, sources first; `edges[n]`: the nodes behind n (repeats are allowed).
  ContractedGraph(const std::vector<int>& order, const std::vector<std::vector<int>>& edges);

  /// The cluster of a node: the number of one of its nodes.
  int find(int node) const;
  /// Merges two clusters, unless a path from one to the other passes a third: that would be a cycle. Tells whether.
  bool merge(int a, int b);
  /// Whether some path leads from cluster a to cluster b; with `around`, one that passes a third cluster.
  bool reaches(int a, int b, bool around) const;
  const std::vector<int>& successors(int cluster) const { return successors_[cluster]; }
  /// Clusters in topological order.
  std::vector<int> order() const;

 private:
  void reorder(int first, int second);

  mutable std::vector<int> parent_;
  std::vector<int> size_, position_, at_;                      // position of a cluster, and what is there (-1: nothing)
  std::vector<std::vector<int>> successors_, predecessors_;  // may name nodes that were merged since
  mutable std::vector<int> seen_;
  std::vector<int> later_;  ///< of reorder(), kept for its memory
  mutable int round_ = 0;
};

}  // namespace graft::partition
