// SPDX-License-Identifier: Apache-2.0
// Variables of a graph as constants.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "import/tensorflow/checkpoint.h"
#include "import/tensorflow/graph_file.h"

namespace graft::tensorflow {

/// Keys of a checkpoint by the variables that they belong to.
using VariableKeys = std::map<std::string, std::string, std::less<>>;

/// Reads from a flat graph that restores variables which key each one is restored from. Throws unsupported for
/// variables that are restored from a part of a tensor.
VariableKeys keys_of(const GraphFile& restore);

/// Makes the variables of a flat graph constants, and reading them nothing; a variable that nobody restores has its own
/// name as its key. Throws invalid_model naming the variable where the checkpoint does not have it, unsupported where
/// the graph writes to one.
std::vector<FileNode> freeze_variables(const GraphFile& file, const VariableKeys& keys, Checkpoint* checkpoint);

}  // namespace graft::tensorflow
