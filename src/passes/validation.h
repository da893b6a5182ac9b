// SPDX-License-Identifier: Apache-2.0
// GRAFT_VALIDATE for passes: what a pass made of a graph must compute what the graph computed.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace graft {

/// The pass that is held to account.
struct ValidatedPass {
  std::string_view name;
  /// The type that it may round floats to, which then alone are compared: an integer may follow from a comparison of
  /// two floats that are nearly equal. Undefined: results stay what they are.
  DType rounds_to = DType::kUndefined;
};

/// Runs both graphs in the interpreter on random inputs; throws an internal error naming the pass, the output and the
/// first element that differs. Graphs that the interpreter cannot run are skipped with a warning.
void validate_pass(const Graph& before, const Graph& after, const ValidatedPass& pass, uint64_t seed);

}  // namespace graft
