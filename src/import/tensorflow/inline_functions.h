// SPDX-License-Identifier: Apache-2.0
// Calls of functions become the nodes of these, so that what is read is one flat graph.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "import/tensorflow/graph_file.h"

namespace graft_tensorflow {
class OpDef;
}  // namespace graft_tensorflow

namespace graft::tensorflow {

/// Definitions of operators by name: functions call the results of nodes by these.
using Operators = std::map<std::string, const graft_tensorflow::OpDef*, std::less<>>;

/// A function as a graph: placeholders for what it is given, and nodes for what it gives.
struct FunctionGraph {
  GraphFile file;
  std::vector<std::string> inputs, outputs;
};
/// The function of a node's attribute, with what it calls inlined. What reads a variable that it is given hands it
/// on. Throws invalid_model for functions that are damaged.
FunctionGraph read_function(const GraphFile& file, const std::string& name, const std::string& where);

/// The nodes that `roots` need, and nothing else: of calls (PartitionedCall, StatefulPartitionedCall, and nodes whose
/// operator is a function) the function's nodes, by the caller's scope where the call has no name of its own. A call
/// stays as an Identity of its results. Functions that control flow runs stay functions. Nodes named in `given` are
/// kept without what they take. Throws invalid_model naming the node for functions that contradict themselves or call
/// themselves, invalid_argument for roots that the graph does not have.
GraphFile inline_functions(const GraphFile& file, const std::vector<std::string>& roots,
                           const std::vector<std::string>& given, const Operators& operators);

}  // namespace graft::tensorflow
