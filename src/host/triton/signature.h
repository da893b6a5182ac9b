// SPDX-License-Identifier: Apache-2.0
// What an engine takes and gives, as Triton sees it: tensors with a type, and whether their first axis is a batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "element_types.h"
#include "graft/graft.h"

namespace graft::triton {

/// An input or output of an engine.
struct Port {
  std::string name;
  const ElementType* type = nullptr;
  std::vector<Axis> axes;
  bool holds_strings() const { return type->server == DataType::kBytes; }
};

/// The inputs and outputs of an engine, in its order.
struct Signature {
  std::vector<Port> inputs, outputs;
  /// Whether the first axis of all inputs and outputs is the same dynamic dimension, and no other axis depends on it:
  /// then the rows of several requests can be one run.
  bool batches = false;
  int64_t most_rows = 0;  ///< of a batch; 0: unbounded
};

/// Throws Error where an input or output is no tensor of a type that Triton has.
Signature signature_of(const Engine& engine);

}  // namespace graft::triton
