// SPDX-License-Identifier: Apache-2.0
// The driver of grafting: from a framework's graph to segments, their reasons, and their engines.
#pragma once

#include <map>
#include <optional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "driver/compile.h"
#include "frontend/conversion.h"
#include "frontend/foreign_graph.h"
#include "partition/partition.h"

namespace graft {

/// A framework's graph with what partitioning needs beside it.
struct HostGraph {
  frontend::ForeignGraph foreign;
  std::vector<bool> counts, replicable;  ///< by node: see partition::Node
  std::map<std::string, Graph::Range, std::less<>> ranges;  ///< of symbols
  std::string frontend;  ///< whose operators these are
  std::vector<bool> inner = {};  ///< by value, or empty: what the framework has otherwise than an engine, so that it
                                 ///< stays on one side
  std::map<std::pair<int, std::string>, std::shared_ptr<const HostGraph>> bodies = {};  ///< functions, by node and name
  bool stated_borders = false;  ///< what crosses a border has a known type and rank: no run tells engines of them
};

/// The rows of a front end (`aten`, `mxnet`, `tensorflow`), with those of users: of the process and of libraries.
/// Throws invalid_argument naming those that there are.
std::shared_ptr<const frontend::Converters> find_converters(std::string_view frontend,
                                                            const std::vector<std::string>& libraries = {});

/// What a caller may choose; see graft_host_partition_create.
struct PartitionChoices {
  int minimum_size = 1, most_segments = 0;
  std::optional<double> minimum_gain_us;
  bool join_independent = false;
  std::vector<std::string> excluded_ops, excluded, only;
  std::vector<std::string> converters;  ///< shared libraries with rows
  std::vector<std::string> operators;  ///< definitions of users' operators, files or texts
};
/// Whether set_choice knows the key.
bool is_partition_choice(std::string_view key);
/// Sets a choice; throws invalid_argument naming the key, the value and what is allowed.
void set_choice(PartitionChoices& choices, OptionText choice);

/// Segments of a framework's graph, and what it takes to compile them.
struct HostPartition {
  frontend::ForeignGraph foreign;  ///< with the types and shapes that conversion found out
  std::map<std::string, Graph::Range, std::less<>> ranges;
  std::shared_ptr<const frontend::Converters> converters;
  partition::Result result;
  /// Of functions of nodes that stay, by node and name.
  std::map<std::pair<int, std::string>, std::shared_ptr<const HostPartition>> bodies = {};
};

/// Converts what can be, and finds the segments. Throws Error for choices that name nothing of the graph.
HostPartition partition_host_graph(const HostGraph& graph, const PartitionChoices& choices);
/// The graph of a segment: what compile_from takes after import. Inputs and outputs stand in the segment's order.
/// Throws invalid_argument for options that choose sizes: the host's graph states them.
Graph segment_graph(const HostPartition& partition, size_t segment, const CompileOptions& options);
/// A text for people: segments with nodes and borders, other nodes with reason and source line.
std::string report(const HostPartition& partition);

}  // namespace graft
