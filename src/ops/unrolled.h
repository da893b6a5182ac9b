// SPDX-License-Identifier: Apache-2.0
// Recurrences whose state is a whole tensor: one set of forms for each step of a length known when compiling.
#pragma once

#include <vector>

#include "ops/compose.h"

namespace graft {

/// The number of steps as a plain number; a length that is open or very long is outside what definitions cover.
int64_t unrolled_steps(Definition& d, const Size& length);
/// Tensors of one shape and type, one of each step, that are read by the number of a step.
class Steps {
 public:
  /// Many steps are first put together to some at a time: what chooses among all would be slow to compile and to run.
  Steps(Definition& d, std::vector<Tensor> steps);
  /// Element `indices` of the tensor of `step`; the branches not taken are not loaded.
  Expr element(const Expr& step, const Indices& indices) const;

 private:
  Expr between(size_t first, size_t last, const Expr& step, const Indices& indices) const;

  std::vector<Tensor> parts_;  ///< of `each_` steps, along an axis in front where that is more than one
  int64_t each_ = 1;
};

}  // namespace graft
