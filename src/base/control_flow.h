// SPDX-License-Identifier: Apache-2.0
// What a step of control flow does with the programs of its bodies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace graft {

/// A branch, or a loop. The step reads the limit and the condition, where there are any, the carried tensors, and what
/// its bodies capture, body after body.
struct ControlFlow {
  enum class Kind : uint8_t { kBranch, kLoop };
  Kind kind = Kind::kBranch;
  bool has_limit = false, has_condition = false;  ///< a branch has a condition
  int carried = 0;                                ///< of a loop
  std::vector<int> captured;  ///< by body: how many tensors; a branch's bodies are the else one, then the then one
  std::vector<int> results;   ///< by output of the step: the number of the result that it is
  std::vector<std::string> symbols;  ///< sizes of outputs that the step binds
};

}  // namespace graft
