// SPDX-License-Identifier: Apache-2.0
#include "partition/contraction.h"

#include <algorithm>
#include <utility>

namespace graft::partition {
namespace {

constexpr int64_t kLastLabel = int64_t{1} << 62;

}  // namespace

ContractedGraph::ContractedGraph(const std::vector<int>& order, const std::vector<std::vector<int>>& edges)
    : parent_(order.size()), size_(order.size(), 1), successors_(edges), predecessors_(order.size()),
      end_(static_cast<int>(order.size())), before_(order.size() + 1), after_(order.size() + 1),
      label_(order.size() + 1), seen_(order.size(), 0) {
  int last = end_;
  for (size_t i = 0; i < order.size(); ++i) {
    parent_[i] = static_cast<int>(i);
    after_[last] = order[i];
    before_[order[i]] = last;
    last = order[i];
  }
  after_[last] = end_;
  before_[end_] = last;
  renumber();
  for (size_t node = 0; node < edges.size(); ++node) {
    for (const int next : edges[node]) predecessors_[next].push_back(static_cast<int>(node));
  }
}

int ContractedGraph::find(int node) const {
  while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
  return node;
}

/// Searches from `a` forwards and from `b`, which is behind it in the order, backwards, a use of each in turns. If no
/// path leads from one to the other (with `around`: none that passes a third cluster), one of them has met all that
/// lies between.
ContractedGraph::Found ContractedGraph::search(int a, int b, bool around) const {
  ++round_;
  const auto begin = [&](Search& search, int cluster, int mark) {
    search.met.assign(1, cluster);
    search.at = search.next = 0;
    seen_[cluster] = search.mark = mark;
  };
  begin(forward_, a, round_);
  begin(backward_, b, -round_);
  const auto is_path = [&](int cluster, int next) {
    return !around || (cluster != a && cluster != b) || (next != a && next != b);
  };
  enum class Step { kOn, kEnd, kPath };
  const auto step = [&](Search& search, const std::vector<std::vector<int>>& uses) {
    while (search.next == uses[search.met[search.at]].size()) {
      search.next = 0;
      if (++search.at == search.met.size()) return Step::kEnd;
    }
    ++steps_;
    const int cluster = search.met[search.at], next = find(uses[cluster][search.next++]);
    if (seen_[next] == -search.mark) return is_path(cluster, next) ? Step::kPath : Step::kOn;
    if (seen_[next] == search.mark || label_[next] < label_[a] || label_[next] > label_[b]) return Step::kOn;
    seen_[next] = search.mark;
    search.met.push_back(next);
    return Step::kOn;
  };
  while (true) {
    const Step ahead = step(forward_, successors_);
    if (ahead != Step::kOn) return ahead == Step::kPath ? Found::kPath : Found::kAllBehind;
    const Step back = step(backward_, predecessors_);
    if (back != Step::kOn) return back == Step::kPath ? Found::kPath : Found::kAllBefore;
  }
}

bool ContractedGraph::reaches(int a, int b) const {
  return label_[a] < label_[b] && search(a, b, false) == Found::kPath;
}

/// The one that stays takes the place of the later one and what the earlier one reaches moves behind it, or the place
/// of the earlier one and what reaches the later one moves before it.
bool ContractedGraph::merge(int a, int b) {
  if (a == b) return true;
  if (label_[a] > label_[b]) std::swap(a, b);
  const Found found = search(a, b, true);
  if (found == Found::kPath) return false;
  const bool later = found == Found::kAllBehind;
  std::vector<int> moved = later ? forward_.met : backward_.met;
  moved.erase(moved.begin());
  std::sort(moved.begin(), moved.end(), [&](int x, int y) { return label_[x] < label_[y]; });
  for (const int cluster : moved) unlink(cluster);
  unlink(later ? a : b);
  const int place = before_[later ? b : a];
  unlink(later ? b : a);
  if (size_[a] < size_[b]) std::swap(a, b);  // the larger one keeps its name
  moved.insert(later ? moved.begin() : moved.end(), a);
  put_behind(place, moved);
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

void ContractedGraph::unlink(int cluster) {
  after_[before_[cluster]] = after_[cluster];
  before_[after_[cluster]] = before_[cluster];
}

void ContractedGraph::put_behind(int place, const std::vector<int>& clusters) {
  const int end = after_[place];
  const int64_t first = place == end_ ? 0 : label_[place], last = end == end_ ? kLastLabel : label_[end];
  const int64_t distance = (last - first) / static_cast<int64_t>(clusters.size() + 1);
  int64_t label = first;
  for (const int cluster : clusters) {
    label_[cluster] = label += distance;
    before_[cluster] = place;
    after_[place] = cluster;
    place = cluster;
  }
  after_[place] = end;
  before_[end] = place;
  if (distance == 0) renumber();
}

/// Labels far from each other, as they were in the beginning.
void ContractedGraph::renumber() {
  const int64_t distance = kLastLabel / static_cast<int64_t>(label_.size() + 1);
  int64_t label = 0;
  for (int cluster = after_[end_]; cluster != end_; cluster = after_[cluster]) label_[cluster] = label += distance;
}

std::vector<int> ContractedGraph::order() const {
  std::vector<int> clusters;
  for (int cluster = after_[end_]; cluster != end_; cluster = after_[cluster]) clusters.push_back(cluster);
  return clusters;
}

}  // namespace graft::partition
