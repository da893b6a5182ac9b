// SPDX-License-Identifier: Apache-2.0
#include "ops/unrolled.h"

#include "ops/recurrent.h"

namespace graft {
namespace {

constexpr int64_t kLongest = 512;

/// The steps [first, last), halved until one is left, so that an element meets log(steps) comparisons.
Expr between(const std::vector<Tensor>& steps, size_t first, size_t last, const Expr& step, const Indices& indices) {
  if (last - first == 1) return steps[first].wide(indices);
  const size_t middle = (first + last) / 2;
  return select(lt(step, make_index(static_cast<int64_t>(middle))), between(steps, first, middle, step, indices),
                between(steps, middle, last, step, indices));
}

}  // namespace

bool is_unrolled(const Size& length) {
  const auto steps = length.as_constant();
  return steps && *steps >= 1 && *steps <= kLongest;
}

int64_t unrolled_steps(Definition& d, const Size& length) {
  const auto steps = length.as_constant();
  if (!steps) d.unsupported("a recurrence over a length that is not known when compiling");
  if (*steps < 1 || *steps > kLongest) {
    d.unsupported("a recurrence over " + std::to_string(*steps) + " steps (1 to " + std::to_string(kLongest) + ")");
  }
  return *steps;
}

Expr element_at_step(const std::vector<Tensor>& steps, const Expr& step, const Indices& indices) {
  return between(steps, 0, steps.size(), step, indices);
}

}  // namespace graft
