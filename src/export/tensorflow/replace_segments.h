// SPDX-License-Identifier: Apache-2.0
// Engines in a GraphDef: nodes of the operator GraftEngine in place of the nodes that they stand for.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/size.h"
#include "import/tensorflow/read_graph.h"

namespace graft::tensorflow {

/// What an engine takes or gives: a tensor of the graph (`conv`, `split:1`).
struct EngineTensor {
  std::string name;
  DType type = DType::kUndefined;
  std::optional<Shape> shape = {};
};

/// An engine, and the nodes of the file that it stands for.
struct EngineNode {
  std::vector<int> nodes;
  std::vector<EngineTensor> inputs, outputs;
  std::vector<std::byte> plan;  ///< its bytes; empty: whoever runs the graph makes it
  std::string device;           ///< what runs it: cpu, cuda, cuda:1
  std::string learning = {};    ///< the name of an engine of the process that learns to be of int8, instead of a plan
};

/// The graph's bytes with engines in place of their nodes. Constants that nobody takes any more go, too. All other
/// nodes stay as their bytes are, but for inputs that engines give now, and for placement beside nodes that have gone;
/// so do functions, versions and what a newer TensorFlow has added. A node that gives an output of the graph keeps its
/// name. `outputs`: of the graph, each the first result of its node where an engine gives it. Of `read` what it says
/// about constants: waiting for one that waits for nothing itself is no reason to keep it. Throws unsupported where a
/// graph's format cannot hold the engines.
std::string replace_segments(const GraphFile& file, const std::vector<EngineNode>& engines,
                             const std::vector<std::string>& outputs, const ReadGraph& read);

/// Names of the engines, in order: `scope/graft_engine_0`, after the scope that holds all of an engine's nodes.
std::vector<std::string> engine_names(const GraphFile& file, const std::vector<EngineNode>& engines);

}  // namespace graft::tensorflow
