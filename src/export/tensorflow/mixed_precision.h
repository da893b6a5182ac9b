// SPDX-License-Identifier: Apache-2.0
// A GraphDef as a GraphDef of mixed precision: Cast nodes where amp/mixed_precision.h decides.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "amp/request.h"
#include "amp/rules.h"
#include "import/tensorflow/graph_file.h"

namespace graft::tensorflow {

struct MixedGraph {
  std::string bytes;                       ///< of the graph that was made
  int casts = 0;                           ///< that were inserted
  std::map<std::string, DType> constants;  ///< of f32 before, by node: what each is now
};

/// Converts a graph. `outputs`: tensors (`softmax`, `split:1`) that keep names and types; none given: of every node
/// whose results nobody takes. Placeholders keep theirs, too. Functions stay as they are, and so does what is not
/// changed, byte for byte. Throws invalid_argument for a request or outputs that do not fit the graph.
MixedGraph convert_graph(const GraphFile& file, const std::vector<std::string>& outputs, const amp::Request& request,
                         const amp::DefaultLists& lists);

}  // namespace graft::tensorflow
