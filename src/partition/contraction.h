// SPDX-License-Identifier: Apache-2.0
// A graph without cycles whose nodes are merged while it stays one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace graft::partition {

/// Clusters of nodes, kept in a topological order. Merging two costs about twice the uses that lie between them in the
/// order and behind the one or before the other, whichever are fewer: both are searched in turns, and the first search
/// that comes to its end says what has to move. (Two-way search in a list with labels: Bender, Fineman, Gilbert and
/// Tarjan, "A New Approach to Incremental Cycle Detection and Related Problems", 2016.)
class ContractedGraph {
 public:
  /// `order`: all nodes, sources first; `edges[n]`: the nodes behind n (repeats are allowed).
  ContractedGraph(const std::vector<int>& order, const std::vector<std::vector<int>>& edges);

  /// The cluster of a node: the number of one of its nodes.
  int find(int node) const;
  /// Merges two clusters, unless a path from one to the other passes a third: that would be a cycle. Tells whether.
  bool merge(int a, int b);
  /// Whether some path leads from cluster a to cluster b.
  bool reaches(int a, int b) const;
  const std::vector<int>& successors(int cluster) const { return successors_[cluster]; }
  /// Clusters in topological order.
  std::vector<int> order() const;
  /// How many uses all searches have looked at: what time grows with.
  int64_t steps() const { return steps_; }

 private:
  enum class Found { kPath, kAllBehind, kAllBefore };
  struct Search {
    std::vector<int> met;  ///< the clusters that it has come to, the one where it began first
    size_t at = 0;         ///< whose uses are looked at
    size_t next = 0;       ///< the use that is next
    int mark = 0;          ///< of these clusters in `seen_`
  };

  Found search(int a, int b, bool around) const;
  void put_behind(int place, const std::vector<int>& clusters);
  void unlink(int cluster);
  void renumber();

  mutable std::vector<int> parent_;
  std::vector<int> size_;
  std::vector<std::vector<int>> successors_, predecessors_;  // may name nodes that were merged since
  // The order: a list through all clusters, from and to `end_`, whose labels grow.
  int end_;
  std::vector<int> before_, after_;
  std::vector<int64_t> label_;
  mutable std::vector<int> seen_;  // by cluster: the round of the search; negative where it went backwards
  mutable Search forward_, backward_;
  mutable int round_ = 0;
  mutable int64_t steps_ = 0;
};

}  // namespace graft::partition
