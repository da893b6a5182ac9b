// SPDX-License-Identifier: Apache-2.0
// Types of what TensorFlow's operators take and give, from the table operator_types.inc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "import/tensorflow/graph_file.h"

namespace graft::tensorflow {

/// What an operator is for in a low type, on every device that TensorFlow runs on.
enum class LowKernels : uint8_t { kNeither, kHalf, kBrain, kBoth };

struct OperatorTypes {
  std::vector<std::string> inputs, outputs;  ///< an attribute's name or a type's; with a star behind it: a list
  LowKernels low = LowKernels::kNeither;

  bool has(DType type) const;
};

/// Null for an operator that the table lacks.
const OperatorTypes* find_operator_types(std::string_view op);

/// A tensor that a node takes or gives.
struct TypedPlace {
  std::string attribute;            ///< the node's attribute that is its type; empty where there is no such
  DType type = DType::kUndefined;  ///< kUndefined: none that Graft has, or the table does not say
};
/// Of the `count` data inputs, or of the first `count` results, of a node.
std::vector<TypedPlace> input_types(const FileNode& node, const OperatorTypes& types, size_t count);
std::vector<TypedPlace> output_types(const FileNode& node, const OperatorTypes& types, size_t count);

}  // namespace graft::tensorflow
