// SPDX-License-Identifier: Apache-2.0
// Control flow of TensorFlow 1 (Switch, Merge, Enter, Exit, NextIteration) becomes that of TensorFlow 2: If and While,
// whose functions are made of the nodes in between (Yu et al., Dynamic Control Flow in Large-Scale Machine Learning).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "import/tensorflow/graph_file.h"

namespace graft::tensorflow {

/// A graph without what was raised.
struct RaisedGraph {
  GraphFile file;  ///< nodes at the places that they have in the given file; for those that have gone, NoOps
  std::vector<std::vector<int>> stands_for;    ///< by node: the nodes of the given file whose work it does
  std::map<std::string, std::string> tensors;  ///< results of what was raised, by the tensors that they were: `exit`

  /// What a tensor of the given file is now, and the other way round.
  Source now(const Source& source) const;
  const std::string& before(const std::string& tensor) const;

  std::map<std::string, Source> moved;  ///< tensors of the given file that are results of a While or If
};

/// Raises loops and conditionals, inner ones first; nothing where there is none. What does not look like TensorFlow's
/// own while_loop or cond stays as it is. `drops_checks`: Assert and Print inside of a loop go, too; otherwise such a
/// loop stays.
std::optional<RaisedGraph> raise_control_flow(const GraphFile& file, bool drops_checks);

}  // namespace graft::tensorflow
