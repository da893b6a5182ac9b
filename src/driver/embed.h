// SPDX-License-Identifier: Apache-2.0
// The driver of embedding: a framework's model file becomes one in which engines stand for the parts that they can run,
// without the framework.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/compile_options.h"
#include "driver/host_graph.h"
#include "driver/int8.h"

namespace graft {

/// What a caller may choose, beside what the graph gives.
struct EmbedChoices {
  PartitionChoices partition;
  CompileOptions compile;  ///< `shapes` are those of the graph's inputs, `dims` the ranges of their open sizes
  std::map<std::string, int64_t, std::less<>> usual;  ///< open sizes to compile for where there is no range
  bool build = true;       ///< false: engines are left to whoever runs the graph, and their nodes have no plan
  Int8Choices int8;  ///< with it, `publish` is there
  /// Takes a network that learns, and gives the name by which a node of the graph finds it.
  std::function<std::string(Int8Engine, const CompileOptions&)> publish = {};
  bool strict = false;     ///< a segment whose engine cannot be built is an error; otherwise it stays as it is
};
/// Sets a choice: one of partitioning, `strict` true, `build` false, `usual` x_0=8, or one of compiling. Throws
/// invalid_argument as those do.
void set_choice(EmbedChoices& choices, OptionText choice);

/// The model with engines, and what became of it.
struct Embedded {
  std::string bytes;
  size_t engines = 0;
  std::string report;  ///< as of a partition, and why engines could not be built
};

/// Rewrites a model of a format (`tensorflow`: a GraphDef), whose bytes `owner` keeps and nobody changes. `outputs`:
/// the tensors that it is asked for. The same arguments give the same bytes, but for what tuning measures. Throws Error
/// naming node, cause and remedy.
Embedded embed(std::string_view format, std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
               const std::vector<std::string>& outputs, const EmbedChoices& choices);

}  // namespace graft
