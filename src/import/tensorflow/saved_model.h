// SPDX-License-Identifier: Apache-2.0
// SavedModels: a folder with a graph, what may be asked of it, and a checkpoint of its variables.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "import/tensorflow/graph_file.h"
#include "import/tensorflow/inline_functions.h"

namespace graft::tensorflow {

/// A tensor of the graph by the name that callers use.
struct NamedTensor {
  std::string name;
  Source source;
  std::shared_ptr<const graft_tensorflow::NodeDef> placeholder;  ///< of an input: what it is, as a Placeholder
};

/// A graph without functions and variables: of one signature of a SavedModel.
struct SignatureGraph {
  GraphFile file;
  std::vector<NamedTensor> inputs, outputs;  ///< by name
};

/// Reads the signature (`serving_default` where it is empty and the model has it, or has no other) of the graph with
/// these tags (`serve`). Variables become constants, whose elements stay in the checkpoint. Throws invalid_argument for
/// tags and signatures that the model does not have, with those that it has, and invalid_model naming file and node.
SignatureGraph read_saved_model(const std::string& folder, const std::string& signature,
                                const std::vector<std::string>& tags);

}  // namespace graft::tensorflow
