// SPDX-License-Identifier: Apache-2.0
#include "expr/addends.h"

namespace graft {

std::vector<Expr> addends(const Expr& e) {
  const bool adds = is_call(e, Intrinsic::kAdd), subtracts = is_call(e, Intrinsic::kSub);
  if (!adds && !subtracts) return {e};
  std::vector<Expr> parts = addends(e->args[0]);
  for (const Expr& part : addends(e->args[1])) parts.push_back(adds ? part : part * make_index(-1));
  return parts;
}

}  // namespace graft
