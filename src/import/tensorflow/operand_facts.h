// SPDX-License-Identifier: Apache-2.0
// What a row's signature says about the values that an operator takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "frontend/conversion.h"
#include "import/tensorflow/graph_file.h"

namespace graft::tensorflow {

/// Of one input: its type and number of axes, as far as the operator demands them.
struct OperandFacts {
  DType type = DType::kUndefined;
  std::optional<int> rank;
};

/// The data inputs of a node, in its order, and how they stand together as arguments: a list where the signature has
/// one.
struct Operands {
  std::vector<OperandFacts> facts;
  std::vector<int> lists;  ///< by argument: how many inputs are its list; -1: it is a single one
};

/// Of a node with `inputs` data inputs. Inputs that the signature does not name are single arguments.
Operands operands_of(const FileNode& node, const frontend::Signature* signature, int inputs);

}  // namespace graft::tensorflow
