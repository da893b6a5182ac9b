// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/bounded_half.h"

#include <algorithm>
#include <cmath>

namespace graft::cuda {
namespace {

/// Whether an f32 constant is a half, exactly: 11 bits from 2^-14 to 2^16.
bool is_half(double x) {
  if (x == 0 || std::isinf(x)) return true;
  int exponent = 0;
  const double scaled = std::ldexp(std::frexp(x, &exponent), 11);
  return std::isfinite(x) && exponent >= -13 && exponent <= 16 && scaled == std::trunc(scaled);
}

/// Whether it is a half in f32, and the same for all neighbours.
bool is_bound(const Expr& e, int last) {
  if (e->type != DType::kFloat32) return false;
  if (e->kind == ExprKind::kConstant) return is_half(e->real);
  return is_call(e, Intrinsic::kCast) && e->args[0]->type == DType::kFloat16 && !uses_variable(e, last);
}

}  // namespace

BoundedHalf bounded_half(const Expr& value, int last) {
  if (value->type != DType::kFloat16 || !is_call(value, Intrinsic::kCast)) return {value, {}};
  std::vector<std::pair<Intrinsic, Expr>> bounds;
  Expr rest = value->args[0];
  while (rest->type == DType::kFloat32 && (is_call(rest, Intrinsic::kMin) || is_call(rest, Intrinsic::kMax))) {
    const size_t bound = is_bound(rest->args[1], last) ? 1 : 0;
    if (!is_bound(rest->args[bound], last)) break;
    bounds.emplace_back(rest->intrinsic, rest->args[bound]);
    rest = Expr(rest->args[1 - bound]);
  }
  if (bounds.empty()) return {value, {}};
  std::reverse(bounds.begin(), bounds.end());
  const bool is_widened = is_call(rest, Intrinsic::kCast) && rest->args[0]->type == DType::kFloat16;
  return {is_widened ? rest->args[0] : make_cast(DType::kFloat16, rest), bounds};
}

}  // namespace graft::cuda
