// SPDX-License-Identifier: Apache-2.0
#include "partition/contraction.h"

#include <algorithm>
#include <utility>

namespace graft::partition {

ContractedGraph::ContractedGraph(const std::vector<int>& order, const std::vector<std::vector<int>>& edges)
    : parent_(order.size()), size_(order.size(), 1), position_(order.size()), at_(order), successors_(edges),
      predecessors_(order.size()), seen_(order.size(), 0) {
  for (size_t i = 0; i < order.size(); ++i) {
    parent_[i] = static_cast<int>(i);
    position_[order[i]] = static_cast<int>(i);
  }
  for (size_t node = 0; node < edges.size(); ++node) {
    for (const int next : edges[node]) predecessors_[next].push_back(static_cast<int>(node));
  }
}

int ContractedGraph::find(int node) const {
  while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
  return node;
}

bool ContractedGraph::reaches(int a, int b, bool around) const {
  const int end = position_[b];
  if (position_[a] >= end) return false;
  std::vector<int> stack;
  seen_[a] = ++round_;
  const auto visit = [&](int cluster, bool first) {
    for (const int each : successors_[cluster]) {
      const int next = find(each);
      if (next == b && !(first && around)) return true;
      if (next == b || position_[next] > end || seen_[next] == round_) continue;
      seen_[next] = round_;
      stack.push_back(next);
    }
    return false;
  };
  if (visit(a, true)) return true;
  while (!stack.empty()) {
    const int next = stack.back();
    stack.pop_back();
    if (visit(next, false)) return true;
  }
  return false;
}

bool ContractedGraph::merge(int a, int b) {
  if (a == b) return true;
  if (position_[a] > position_[b]) std::swap(a, b);
  if (reaches(a, b, true)) return false;
  reorder(a, b);
  const int place = position_[a];
  if (size_[a] < size_[b]) std::swap(a, b);  // the larger one keeps its name
  at_[position_[b]] = at_[position_[a]] = -1;
  at_[place] = a;
  position_[a] = place;
  parent_[b] = a;
  size_[a] += size_[b];
  for (auto* list : {&successors_, &predecessors_}) {
    std::vector<int>&into = (*list)[a], &from = (*list)[b];
    if (into.size() < from.size()) into.swap(from);
    into.insert(into.end(), from.begin(), from.end());
    from = {};
  }
  return true;
}

/// Brings two clusters side by side: what lies between them goes behind `second` if `first` reaches it, as reaches()
/// has just marked it, else before.
void ContractedGraph::reorder(int first, int second) {
  const int begin = position_[first], end = position_[second];
  int free = begin;  // the next place, at or before the one that is read
  const auto put = [&](int cluster) {
    while (at_[free] < 0) ++free;
    at_[free] = cluster;
    position_[cluster] = free++;
  };
  later_.clear();
  for (int place = begin; place <= end; ++place) {
    const int cluster = at_[place];
    if (cluster < 0 || cluster == first || cluster == second) continue;
    if (seen_[cluster] == round_) {
      later_.push_back(cluster);
    } else {
      put(cluster);
    }
  }
  put(first);
  put(second);
  for (const int cluster : later_) put(cluster);
}

std::vector<int> ContractedGraph::order() const {
  std::vector<int> clusters;
  for (const int cluster : at_) {
    if (cluster >= 0) clusters.push_back(cluster);
  }
  return clusters;
}

}  // namespace graft::partition
