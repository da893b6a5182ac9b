// SPDX-License-Identifier: Apache-2.0
#include "tile/enlarged_maps.h"

#include <numeric>

namespace graft::tile {

int64_t period_of(const Expr& e, int variable) {
  constexpr int64_t kMost = 1 << 12;
  int64_t period = 1;
  for_each(e, [&](const Expr& node) {
    const bool divided = is_call(node, Intrinsic::kFloorDiv) || is_call(node, Intrinsic::kMod);
    if (!divided || period == 0 || !uses_variable(node->args[0], variable)) return;
    const int64_t by = as_integer(node->args[1]).value_or(0);
    const auto sum = affine(node->args[0]);
    const int64_t step = sum ? sum->coefficient(variable).as_constant().value_or(0) : 0;
    const int64_t own = by > 0 && step > 0 ? by / std::gcd(by, step) : 0;
    period = own > kMost || period > kMost ? 0 : std::lcm(period, own);
  });
  return period;
}

}  // namespace graft::tile
