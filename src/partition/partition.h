// SPDX-License-Identifier: Apache-2.0
// Which parts of somebody else's graph become engines, and why the rest stays where it is. Knows no framework: a host
// hands in nodes, values and what is supported, and gets segments and reasons.
//
//   partition::AbstractGraph graph = ...;                         // as the host's graph has it
//   partition::Result result = partition::partition(graph, {.why_not = supports, .minimum_size = 3});
//   for (const partition::Segment& segment : result.segments) ... // replace segment.nodes by an engine node
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace graft::partition {

/// Something that flows between nodes.
struct Value {
  int producer = -1;      ///< index of its node; -1: an input of the graph
  int64_t bytes = 0;      ///< what it costs to hand over a border; 0: unknown or nothing
  bool crosses = true;    ///< false: no engine can take or give it (a list, a number of the host's)
};

/// An operator of the host's graph.
struct Node {
  std::string name, op;
  std::string scope = {};          ///< module or name scope, for choices by its prefix
  std::vector<int> inputs = {};    ///< indices of values, in the operator's order
  std::vector<int> outputs = {};
  std::vector<int> after = {};     ///< nodes that have to run before: side effects, writes in place, control edges
  bool counts = true;              ///< false: no real operator (a constant, an identity, packing of a list)
  bool replicable = false;         ///< cheap and without side effects: may be copied to both sides of a border
};

/// Nodes in any order; their data and order edges have no cycle.
struct AbstractGraph {
  std::vector<Node> nodes;
  std::vector<Value> values;
  std::vector<int> inputs, outputs;  ///< of values
};

/// What runs as one engine.
struct Segment {
  std::vector<int> nodes;    ///< in an order in which they can run; replicated ones are in several segments
  std::vector<int> inputs;   ///< values from outside, each once, in the order of their first use
  std::vector<int> outputs;  ///< values that are used outside
  int size = 0;              ///< real operators among the nodes
  int64_t border_bytes = 0;  ///< of inputs and outputs
  /// Microseconds that a run saves by estimate: calls of operators that become one, and values between them that stay
  /// in the engine, less the engine's call. Nothing is said of how fast kernels are.
  double gain_us = 0;
};

struct Options {
  /// Why no engine can do the node, or nothing.
  std::function<std::string(int node)> why_not;
  int minimum_size = 1;    ///< real operators of a segment
  int most_segments = 0;   ///< the largest so many are kept; 0: all
  std::optional<double> minimum_gain_us = {};  ///< of a segment, by estimate; none: whatever it saves
  /// Why an engine would not pay, or nothing; asked for each segment of sufficient size.
  std::function<std::string(const Segment& segment)> why_no_gain = {};
  /// As few segments as can hold all nodes, also of nodes that nothing connects: fewer calls, but none starts before
  /// the inputs of all its nodes are there.
  bool join_independent = false;
};

/// Segments in an order in which they can run, and why each other node stays with the host.
struct Result {
  std::vector<Segment> segments;
  std::vector<std::string> reasons;  ///< by node; empty for those in a segment
  std::vector<int> segment_of;       ///< by node; -1: the host's alone
  std::vector<int> kept;             ///< replicable nodes of segments that the host needs, too
  int64_t steps = 0;                 ///< uses that searches for cycles looked at: what time grows with
};

/// Segments such that replacing each by one node leaves no cycle, and no two neighbours could be merged without one.
/// Without `join_independent` segments are connected. Deterministic: depends on the graph and the order of its nodes
/// alone. Time is near-linear in nodes and uses. Throws Error{invalid_argument} naming the node for indices that do not
/// exist and for cycles.
Result partition(const AbstractGraph& graph, const Options& options);

}  // namespace graft::partition
