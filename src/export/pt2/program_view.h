// SPDX-License-Identifier: Apache-2.0
// A program of torch.export as the conversion to mixed precision sees it.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "amp/graph.h"
#include "amp/rules.h"
#include "import/pt2/program.h"

namespace graft::pt2 {

/// The abstract graph: its nodes are the program's, in order, its values those of the program's graph.
struct ProgramView {
  amp::Graph graph;
  /// By node and input: where the description names what it reads.
  std::vector<std::vector<nlohmann::ordered_json*>> names;
};

/// `document`: the description that the program was read from, which the view refers to. Throws unsupported naming a
/// node whose arguments are named in another way than they are read.
ProgramView view_program(const Program& program, nlohmann::ordered_json& document, const amp::DefaultLists& lists,
                         const std::string& where);

}  // namespace graft::pt2
