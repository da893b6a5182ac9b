// SPDX-License-Identifier: Apache-2.0
#include "partition/partition.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include <fmt/format.h>

#include "base/error.h"
#include "partition/contraction.h"

namespace graft::partition {
namespace {

// What a call of a framework's operator and one of an engine cost, and how much memory is written and read meanwhile:
// of the size that PyTorch's and TensorFlow's calls have on a processor's core, and for GPUs their launches.
constexpr double kOperatorUs = 4, kEngineUs = 12, kBytesPerUs = 20'000;

using Edges = std::vector<std::vector<int>>;

void check_index(bool good, const Node& node, std::string_view what) {
  GRAFT_USER_CHECK(good, kInvalidArgument, fmt::format("it names {} that the graph does not have", what),
                   fmt::format("node '{}'", node.name));
}

/// The nodes behind each node, by data and by order.
Edges edges_of(const AbstractGraph& graph) {
  const auto node_count = static_cast<int>(graph.nodes.size()), value_count = static_cast<int>(graph.values.size());
  Edges edges(graph.nodes.size());
  for (int n = 0; n < node_count; ++n) {
    const Node& node = graph.nodes[n];
    for (const int value : node.inputs) {
      check_index(value >= 0 && value < value_count && graph.values[value].producer < node_count, node, "a value");
      if (graph.values[value].producer >= 0) edges[graph.values[value].producer].push_back(n);
    }
    for (const int value : node.outputs) {
      check_index(value >= 0 && value < value_count && graph.values[value].producer == n, node, "an output");
    }
    for (const int before : node.after) {
      check_index(before >= 0 && before < node_count, node, "a node");
      edges[before].push_back(n);
    }
  }
  return edges;
}

/// Numbers so that edges lead upwards, the lowest number that can come next first.
std::vector<int> topological_order(const Edges& edges, const std::function<std::string(int)>& name) {
  std::vector<int> waiting(edges.size(), 0), order;
  for (const std::vector<int>& next : edges) {
    for (const int n : next) ++waiting[n];
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t n = 0; n < edges.size(); ++n) {
    if (waiting[n] == 0) ready.push(static_cast<int>(n));
  }
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int n : edges[order.back()]) {
      if (--waiting[n] == 0) ready.push(n);
    }
  }
  if (order.size() < edges.size()) {
    const auto stuck = std::find_if(waiting.begin(), waiting.end(), [](int left) { return left > 0; });
    throw Error(ErrorKind::kInvalidArgument, "it depends on itself", name(static_cast<int>(stuck - waiting.begin())));
  }
  return order;
}

/// The work of one call of partition().
class Partitioner {
 public:
  Partitioner(const AbstractGraph& graph, const Options& options)
      : graph_(graph), options_(options), edges_(edges_of(graph)), cluster_(graph.nodes.size()) {
    order_ = topological_order(edges_, [&](int n) { return fmt::format("node '{}'", graph.nodes[n].name); });
    result_.reasons.resize(graph.nodes.size());
    result_.segment_of.assign(graph.nodes.size(), -1);
    consumers_.resize(graph.values.size()), named_.resize(graph.values.size()), is_output_.resize(graph.values.size());
    inside_.resize(graph.nodes.size()), kept_.resize(graph.nodes.size()), place_.resize(graph.nodes.size());
    for (const int value : graph.outputs) is_output_[value] = true;
    for (size_t k = 0; k < order_.size(); ++k) place_[order_[k]] = static_cast<int>(k);
    for (const int n : order_) {
      for (const int value : graph.nodes[n].inputs) consumers_[value].push_back(n);
    }
  }

  Result run() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (options_.why_not) result_.reasons[n] = options_.why_not(static_cast<int>(n));
    }
    bind_groups();
    cluster_by_level();
    if (!options_.join_independent) merge_neighbours();
    collect();
    drop_small();
    finish();
    return std::move(result_);
  }

 private:
  bool is_taken(int node) const { return result_.reasons[node].empty(); }
  const std::string& name(int node) const { return graph_.nodes[node].name; }

  void refuse(int node, const std::string& reason) {
    if (is_taken(node)) result_.reasons[node] = reason;
  }

  /// What is handed over in a value that no engine can take or give has to stay on one side: its producer and its
  /// consumers become one, or stay with the host. Replicable producers are copied to where they are needed instead.
  void bind_groups() {
    std::vector<std::pair<int, int>> bound;
    partners_.resize(graph_.nodes.size());
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const int producer = graph_.values[v].producer;
      if (graph_.values[v].crosses) continue;
      if (producer >= 0 && is_output_[v] && !graph_.nodes[producer].replicable) {
        refuse(producer, "it makes an output of the graph that no engine can give");
      }
      for (const int consumer : consumers_[v]) {
        if (producer < 0) {
          refuse(consumer, "it takes an input of the graph that no engine can be given");
          continue;
        }
        partners_[producer].push_back(consumer);
        if (graph_.nodes[producer].replicable) continue;
        partners_[consumer].push_back(producer);
        bound.emplace_back(producer, consumer);
      }
    }
    spread_refusals();
    ContractedGraph contracted(order_, edges_);
    for (const auto& [a, b] : bound) {
      if (!is_taken(a) || merge_with_between(contracted, a, b)) continue;
      refuse(b, fmt::format("what '{}' gives it cannot leave an engine, and one engine cannot hold both", name(a)));
    }
    result_.steps = contracted.steps();
    spread_refusals();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      cluster_[n] = is_taken(static_cast<int>(n)) ? contracted.find(static_cast<int>(n)) : static_cast<int>(n);
    }
    renumber();
  }

  /// Merges two nodes, with all that lies on a way from one to the other where engines can do that, too.
  bool merge_with_between(ContractedGraph& contracted, int a, int b) {
    if (contracted.merge(contracted.find(a), contracted.find(b))) return true;
    const std::vector<int> order = contracted.order();
    const int last = contracted.find(b);
    std::vector<bool> behind(graph_.nodes.size(), false);
    std::vector<int> between;
    behind[contracted.find(a)] = true;
    for (const int cluster : order) {
      if (!behind[cluster]) continue;
      for (const int next : contracted.successors(cluster)) behind[contracted.find(next)] = true;
      const bool inside = cluster != contracted.find(a) && contracted.reaches(cluster, last);
      if (inside && cluster != last) between.push_back(cluster);
    }
    for (const int cluster : between) {
      if (!is_taken(cluster)) return false;
    }
    for (const int cluster : between) {
      if (!contracted.merge(contracted.find(a), contracted.find(cluster))) return false;
    }
    return contracted.merge(contracted.find(a), contracted.find(b));
  }

  /// Refusals go on along values that cannot cross, until nothing changes.
  void spread_refusals() {
    std::vector<int> queue;
    for (const int n : order_) {
      if (!is_taken(n)) queue.push_back(n);
    }
    while (!queue.empty()) {
      const int node = queue.back();
      queue.pop_back();
      for (const int partner : partners_[node]) {
        if (!is_taken(partner)) continue;
        refuse(partner, fmt::format("no engine can hand over what it shares with '{}', which stays", name(node)));
        queue.push_back(partner);
      }
    }
  }

  /// Clusters get the numbers 0 .. count - 1; `members_` and the edges between them follow.
  void renumber() {
    std::vector<int> number(graph_.nodes.size(), -1);
    int count = 0;
    for (const int n : order_) {
      int& its = number[cluster_[n]];
      if (its < 0) its = count++;
    }
    members_.assign(count, {});
    between_.assign(count, {});
    for (const int n : order_) cluster_[n] = number[cluster_[n]];
    for (const int n : order_) {
      members_[cluster_[n]].push_back(n);
      for (const int next : edges_[n]) {
        if (cluster_[next] != cluster_[n]) between_[cluster_[n]].push_back(cluster_[next]);
      }
    }
    for (std::vector<int>& next : between_) {
      std::sort(next.begin(), next.end());
      next.erase(std::unique(next.begin(), next.end()), next.end());
    }
  }

  bool takes(int cluster) const { return is_taken(members_[cluster][0]); }

  std::vector<int> cluster_order() const {
    return topological_order(between_, [&](int c) { return fmt::format("node '{}'", name(members_[c][0])); });
  }

  /// How often a longest path to each cluster changes between engines and the host; even for engines.
  std::vector<int> levels() const {
    std::vector<int> level(members_.size());
    for (size_t c = 0; c < members_.size(); ++c) level[c] = takes(static_cast<int>(c)) ? 0 : -1;
    for (const int c : cluster_order()) {
      for (const int next : between_[c]) level[next] = std::max(level[next], level[c] + (takes(c) != takes(next)));
    }
    return level;
  }

  /// Neighbours of one level become one, or all of a level. A path that leaves a level never comes back to it, so that
  /// all of them may at the same time; and each level has to be left before the next, so that fewer segments than
  /// levels cannot hold all nodes.
  void cluster_by_level() {
    const std::vector<int> level = levels();
    std::vector<int> parent(members_.size());
    std::iota(parent.begin(), parent.end(), 0);
    const auto find = [&](int c) {
      while (parent[c] != c) c = parent[c] = parent[parent[c]];
      return c;
    };
    std::vector<int> first(members_.size() + 1, -1);  // of a level
    for (size_t c = 0; c < members_.size(); ++c) {
      if (options_.join_independent && takes(static_cast<int>(c))) {
        int& its = first[level[c] / 2];
        if (its < 0) its = static_cast<int>(c);
        parent[find(static_cast<int>(c))] = find(its);
      }
      for (const int next : between_[c]) {
        const bool together = takes(static_cast<int>(c)) && takes(next) && level[c] == level[next];
        if (together) parent[find(next)] = find(static_cast<int>(c));
      }
    }
    std::vector<int> representative(members_.size());
    for (size_t c = 0; c < members_.size(); ++c) representative[c] = members_[find(static_cast<int>(c))][0];
    for (int& cluster : cluster_) cluster = representative[cluster];
    renumber();
  }

  /// Neighbours of different levels become one where no path between them passes somebody else.
  void merge_neighbours() {
    ContractedGraph contracted(cluster_order(), between_);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t c = 0; c < members_.size(); ++c) {
        if (!takes(static_cast<int>(c))) continue;
        for (const int next : between_[c]) {
          if (!takes(next)) continue;
          const int a = contracted.find(static_cast<int>(c)), b = contracted.find(next);
          if (a != b && contracted.merge(a, b)) changed = true;
        }
      }
    }
    result_.steps += contracted.steps();
    std::vector<int> representative(members_.size());
    for (size_t c = 0; c < members_.size(); ++c) representative[c] = members_[contracted.find(static_cast<int>(c))][0];
    for (int& cluster : cluster_) cluster = representative[cluster];
    renumber();
  }

  /// Clusters that engines take become segments, in an order in which they can run.
  void collect() {
    for (const int c : cluster_order()) {
      if (!takes(c)) continue;
      Segment segment{.nodes = members_[c]};
      leave_unused(segment);
      if (segment.nodes.empty()) continue;
      for (const int n : segment.nodes) segment.size += graph_.nodes[n].counts;
      find_borders(segment);
      result_.segments.push_back(std::move(segment));
    }
  }

  /// Replicable nodes stay with the host whose results it alone uses and no engine can give. What nobody uses is left
  /// where it is: for the host it would be one more value to get out.
  void leave_unused(Segment& segment) {
    ++round_;
    for (const int n : segment.nodes) inside_[n] = round_;
    const auto is_inside = [&](int consumer) { return inside_[consumer] == round_; };
    for (size_t i = segment.nodes.size(); i-- > 0;) {
      const int n = segment.nodes[i];
      const auto is_wanted = [&](int value) {
        const std::vector<int>& consumers = consumers_[value];
        return graph_.values[value].crosses || std::any_of(consumers.begin(), consumers.end(), is_inside);
      };
      const auto is_used = [&](int value) { return is_output_[value] || !consumers_[value].empty(); };
      const std::vector<int>& outputs = graph_.nodes[n].outputs;
      if (!graph_.nodes[n].replicable || std::any_of(outputs.begin(), outputs.end(), is_wanted) ||
          std::none_of(outputs.begin(), outputs.end(), is_used)) {
        continue;
      }
      inside_[n] = 0;
      refuse(n, "no engine can hand over what it gives, which is used outside");
    }
    std::erase_if(segment.nodes, [&](int n) { return inside_[n] != round_; });
  }

  void drop_small() {
    std::vector<std::string> why(result_.segments.size());
    for (size_t s = 0; s < why.size(); ++s) {
      const Segment& segment = result_.segments[s];
      if (segment.size < std::max(options_.minimum_size, 1)) {
        why[s] = fmt::format("only {} operator{} stand{} together here, and the minimum is {}", segment.size,
                             segment.size == 1 ? "" : "s", segment.size == 1 ? "s" : "", options_.minimum_size);
      } else if (options_.minimum_gain_us && segment.gain_us < *options_.minimum_gain_us) {
        why[s] = fmt::format("an engine would {} about {:.0f} us a run here, and the minimum is a gain of {:.0f}",
                             segment.gain_us < 0 ? "lose" : "save", std::abs(segment.gain_us),
                             *options_.minimum_gain_us);
      } else if (options_.why_no_gain) {
        why[s] = options_.why_no_gain(segment);
      }
    }
    keep_largest(why);
    std::vector<Segment> kept;
    for (size_t s = 0; s < why.size(); ++s) {
      if (why[s].empty()) {
        kept.push_back(std::move(result_.segments[s]));
        continue;
      }
      for (const int n : result_.segments[s].nodes) refuse(n, why[s]);
    }
    result_.segments = std::move(kept);
  }

  void keep_largest(std::vector<std::string>& why) const {
    if (options_.most_segments <= 0) return;
    std::vector<size_t> left;
    for (size_t s = 0; s < why.size(); ++s) {
      if (why[s].empty()) left.push_back(s);
    }
    std::stable_sort(left.begin(), left.end(),
                     [&](size_t a, size_t b) { return result_.segments[a].size > result_.segments[b].size; });
    for (size_t i = static_cast<size_t>(options_.most_segments); i < left.size(); ++i) {
      why[left[i]] = fmt::format("of {} segments only the largest {} are kept", left.size(), options_.most_segments);
    }
  }

  /// Values that come in and go out.
  void find_borders(Segment& segment) {
    segment.inputs.clear(), segment.outputs.clear(), segment.border_bytes = 0;
    ++round_;
    for (const int n : segment.nodes) inside_[n] = round_;
    const auto outside = [&](int n) { return inside_[n] != round_ || kept_[n]; };
    for (const int n : segment.nodes) {
      for (const int value : graph_.nodes[n].inputs) {
        const int producer = graph_.values[value].producer;
        if ((producer >= 0 && inside_[producer] == round_) || named_[value] == round_) continue;
        named_[value] = round_;
        segment.inputs.push_back(value);
      }
      for (const int value : graph_.nodes[n].outputs) {
        if (!graph_.values[value].crosses) continue;
        const std::vector<int>& consumers = consumers_[value];
        const bool used = is_output_[value] || std::any_of(consumers.begin(), consumers.end(), outside);
        if (used) segment.outputs.push_back(value);
      }
    }
    for (const int value : segment.inputs) segment.border_bytes += graph_.values[value].bytes;
    for (const int value : segment.outputs) segment.border_bytes += graph_.values[value].bytes;
    estimate_gain(segment);
  }

  void estimate_gain(Segment& segment) const {
    int64_t made = 0, given = 0;
    for (const int n : segment.nodes) {
      for (const int value : graph_.nodes[n].outputs) made += graph_.values[value].bytes;
    }
    for (const int value : segment.outputs) given += graph_.values[value].bytes;
    segment.gain_us = segment.size * kOperatorUs - kEngineUs + static_cast<double>(made - given) * 2 / kBytesPerUs;
  }

  const AbstractGraph& graph_;
  const Options& options_;
  Edges edges_;
  std::vector<int> order_;
  Edges consumers_;           // by value
  std::vector<int> cluster_;  // by node
  Edges members_, between_;   // by cluster
  Edges partners_;            // by node: who has to stay where it stays
  std::vector<bool> is_output_, kept_;
  std::vector<int> inside_, named_, place_;  // by node, by value: the round that it was seen in; by node: in the order
  int round_ = 0;
  Result result_;

  void keep_for_host();
  void replicate(Segment& segment);
  void finish();
};

/// Replicable nodes whose results the host uses and no engine can give stay with it, with what they need in turn.
void Partitioner::keep_for_host() {
  for (size_t k = order_.size(); k-- > 0;) {
    const int n = order_[k];
    if (result_.segment_of[n] < 0 || !graph_.nodes[n].replicable) continue;
    const auto in_host = [&](int consumer) { return result_.segment_of[consumer] < 0 || kept_[consumer]; };
    for (const int value : graph_.nodes[n].outputs) {
      const std::vector<int>& consumers = consumers_[value];
      if (graph_.values[value].crosses) continue;
      kept_[n] = kept_[n] || is_output_[value] || std::any_of(consumers.begin(), consumers.end(), in_host);
    }
  }
  for (const int n : order_) {
    if (kept_[n]) result_.kept.push_back(n);
  }
}

/// Copies replicable nodes into a segment that uses their results, where these cannot be handed over.
void Partitioner::replicate(Segment& segment) {
  ++round_;
  for (const int n : segment.nodes) inside_[n] = round_;
  const size_t before = segment.nodes.size();
  for (size_t i = 0; i < segment.nodes.size(); ++i) {
    for (const int value : graph_.nodes[segment.nodes[i]].inputs) {
      const int producer = graph_.values[value].producer;
      if (graph_.values[value].crosses || producer < 0 || inside_[producer] == round_) continue;
      inside_[producer] = round_;
      segment.nodes.push_back(producer);
    }
  }
  if (segment.nodes.size() == before) return;
  std::sort(segment.nodes.begin(), segment.nodes.end(), [&](int a, int b) { return place_[a] < place_[b]; });
}

void Partitioner::finish() {
  for (size_t s = 0; s < result_.segments.size(); ++s) {
    for (const int n : result_.segments[s].nodes) result_.segment_of[n] = static_cast<int>(s);
  }
  keep_for_host();
  for (Segment& segment : result_.segments) {
    replicate(segment);
    find_borders(segment);
  }
}

}  // namespace

Result partition(const AbstractGraph& graph, const Options& options) { return Partitioner(graph, options).run(); }

}  // namespace graft::partition
