// SPDX-License-Identifier: Apache-2.0
#include "fuse/decoded_operand.h"

#include <algorithm>
#include <numeric>

namespace graft {
namespace {

/// The number of reduced axes up to the last one that the expression uses.
size_t depth_of(const Expr& e, const std::vector<Axis>& k) {
  size_t depth = 0;
  for (size_t i = 0; i < k.size(); ++i) {
    if (uses_variable(e, k[i].variable->variable)) depth = i + 1;
  }
  return depth;
}

/// Whether the expression reads integers of at most 8 bits, and nothing else.
bool reads_codes(const Expr& e) {
  bool any = false, all = true;
  for_each(e, [&](const Expr& node) {
    if (node->kind != ExprKind::kLoad) return;
    any = true, all = all && is_integer(node->type) && bit_width(node->type) <= 8;
  });
  return any && all;
}

/// Whether an integer has at most 16 bits, so that f32 holds it and its differences.
bool is_short(const Expr& e) {
  if (e->kind == ExprKind::kConstant) return e->integer > -(1 << 16) && e->integer < (1 << 16);
  if (is_call(e, Intrinsic::kCast)) return is_integer(e->args[0]->type) && bit_width(e->args[0]->type) <= 16;
  return is_call(e, Intrinsic::kAnd) && (is_short(e->args[0]) || is_short(e->args[1]));
}

/// What is rounded to 16 bits and multiplied in f32.
Expr unrounded(const Expr& e) {
  if (!is_call(e, Intrinsic::kCast) || !is_call(e->args[0], Intrinsic::kCast)) return e;
  const Expr& rounded = e->args[0];
  const bool narrow = is_float(rounded->type) && bit_width(rounded->type) == 16;
  return narrow && rounded->args[0]->type == e->type ? rounded->args[0] : e;
}

}  // namespace

std::optional<DecodedOperand> decoded_operand(const Contraction& contraction) {
  const std::vector<Axis>& k = contraction.k;
  DecodedOperand found{.code = unrounded(contraction.b), .zero = {}, .scale = {}};
  if (found.code->kind == ExprKind::kLoad) return std::nullopt;
  const DType type = found.code->type;
  if (is_call(found.code, Intrinsic::kMul)) {
    const Expr left = found.code->args[0], right = found.code->args[1];
    const size_t of_left = depth_of(left, k), of_right = depth_of(right, k);
    if (of_left == of_right) return std::nullopt;
    found.code = of_left > of_right ? left : right;
    found.scale = of_left > of_right ? right : left;
    found.outer = std::min(of_left, of_right);
  }
  if (is_call(found.code, Intrinsic::kCast) && is_call(found.code->args[0], Intrinsic::kSub)) {
    const Expr code = found.code->args[0]->args[0], zero = found.code->args[0]->args[1];
    if (is_integer(code->type) && is_short(code) && is_short(zero)) {
      found.code = make_cast(type, code), found.zero = make_cast(type, zero);
    }
  } else if (is_call(found.code, Intrinsic::kSub)) {
    const Expr zero = found.code->args[1];
    if (depth_of(zero, k) < depth_of(found.code->args[0], k)) found.code = found.code->args[0], found.zero = zero;
  }
  if (found.zero) found.outer = std::max(found.outer, depth_of(found.zero, k));
  if (!reads_codes(found.code)) return std::nullopt;
  if (found.outer >= k.size() || depth_of(found.code, k) != k.size()) return std::nullopt;
  return found;
}

namespace {

/// Whether places along the reduced axes are places along one axis, wherever the expression asks for them.
bool runs_as_one(const Expr& e, const std::vector<Axis>& k) {
  bool one = true;
  const auto check = [&](const Expr& index) {
    const bool used = std::any_of(k.begin(), k.end(),
                                  [&](const Axis& axis) { return uses_variable(index, axis.variable->variable); });
    if (!used || !one) return;
    const auto form = affine(index);
    one = form.has_value();
    Size step = one ? form->coefficient(k.back().variable->variable) : Size(0);
    for (size_t i = k.size(); i-- > 0 && one;) {
      one = form->coefficient(k[i].variable->variable) == step;
      step = step * k[i].extent;
    }
  };
  for_each(e, [&](const Expr& node) {
    const bool compares = node->kind == ExprKind::kCall && node->type == DType::kBool;
    if (node->kind != ExprKind::kLoad && !compares) return;
    for (const Expr& arg : node->args) {
      if (arg->type == DType::kInt64) check(arg);
    }
  });
  return one;
}

}  // namespace

std::optional<int64_t> decoded_step(const Contraction& contraction, int64_t about) {
  constexpr int64_t kUnit = 64, kMost = 1024;
  const auto operand = decoded_operand(contraction);
  const Expr a = unwidened(contraction.a), b = unwidened(contraction.b);
  const bool rounded = is_call(b, Intrinsic::kCast) && a->type == b->type && is_float(b->type);
  if (!operand || !rounded || bit_width(b->type) != 16 || !runs_as_one(a, contraction.k)) return std::nullopt;
  int64_t block = 1;
  for (size_t i = 1; i < contraction.k.size(); ++i) {
    const auto extent = contraction.k[i].extent.as_constant();
    if (!extent || *extent < 1 || *extent > kMost) return std::nullopt;
    block *= *extent;
  }
  const int64_t unit = std::lcm(kUnit, block);
  if (unit > kMost) return std::nullopt;
  return std::min(std::max<int64_t>(1, about / unit), kMost / unit) * unit;
}

}  // namespace graft
