// SPDX-License-Identifier: Apache-2.0
#include "expr/fold.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/derived_sizes.h"

namespace graft {
namespace {

bool is_constant(const Expr& e, int64_t value) {
  return !is_float(e->type) && as_integer(e) == value;
}

/// An i64 that is a size or a constant, as a Size.
std::optional<Size> as_size(const Expr& e) {
  if (e->type != DType::kInt64) return std::nullopt;
  if (e->kind == ExprKind::kSize) return e->size;
  if (e->kind == ExprKind::kConstant) return Size(e->integer);
  return std::nullopt;
}

/// A size, while it is short enough to be one: products of products double with each node.
Expr short_size(const Size& size) { return is_longer(size, kShortInIndices) ? Expr() : make_size(size); }

/// Whether an index is seen to lie inside an extent.
bool is_within(const Size& index, const Size& extent) {
  return index.is_constant() && extent.is_constant() && index.constant() >= 0 && index.constant() < extent.constant();
}

/// Arithmetic on two sizes stays a size.
Expr fold_sizes(Intrinsic intrinsic, const Size& a, const Size& b) {
  switch (intrinsic) {
    case Intrinsic::kAdd: return short_size(a + b);
    case Intrinsic::kSub: return short_size(a - b);
    case Intrinsic::kMul: return short_size(a * b);
    case Intrinsic::kMin: return short_size(min(a, b));
    case Intrinsic::kMax: return short_size(max(a, b));
    case Intrinsic::kFloorDiv: return b.is_constant() && !b.is(0) ? short_size(floor_div(a, b)) : Expr();
    case Intrinsic::kMod: return b.is_constant() && !b.is(0) ? short_size(mod(a, b)) : Expr();
    case Intrinsic::kCheckIndex: return is_within(a, b) ? short_size(a) : Expr();
    default: return {};
  }
}

/// Comparisons of integers whose difference is a constant.
Expr fold_comparison(Intrinsic intrinsic, int64_t difference) {
  bool value = false;
  switch (intrinsic) {
    case Intrinsic::kEq: value = difference == 0; break;
    case Intrinsic::kNe: value = difference != 0; break;
    case Intrinsic::kLt: value = difference < 0; break;
    case Intrinsic::kLe: value = difference <= 0; break;
    case Intrinsic::kGt: value = difference > 0; break;
    case Intrinsic::kGe: value = difference >= 0; break;
    default: return {};
  }
  return make_integer(DType::kBool, value);
}

Expr fold_logic(Intrinsic intrinsic, const std::vector<Expr>& args) {
  if (intrinsic == Intrinsic::kNot) {
    return args[0]->kind == ExprKind::kConstant ? make_integer(DType::kBool, !args[0]->integer) : Expr();
  }
  if (args.size() != 2) return {};
  for (int i = 0; i < 2; ++i) {
    if (args[i]->kind != ExprKind::kConstant) continue;
    const bool value = args[i]->integer != 0;
    const Expr& other = args[1 - i];
    if (intrinsic == Intrinsic::kAnd) return value ? other : args[i];
    if (intrinsic == Intrinsic::kOr) return value ? args[i] : other;
    if (intrinsic == Intrinsic::kXor && !value) return other;
  }
  return {};
}

Expr fold_integers(Intrinsic intrinsic, const std::vector<Expr>& args) {
  const Expr& a = args[0];
  if (args.size() == 1) {
    if (intrinsic == Intrinsic::kNeg && a->kind == ExprKind::kConstant && a->integer != INT64_MIN) {
      return make_integer(a->type, -a->integer);
    }
    if (intrinsic == Intrinsic::kCheckDivisor && a->kind == ExprKind::kConstant && a->integer != 0) return a;
    return {};
  }
  const Expr& b = args[1];
  const auto sa = as_size(a), sb = as_size(b);
  if (sa && sb) {
    if (Expr folded = fold_sizes(intrinsic, *sa, *sb)) return folded;
    if (const Size d = *sa - *sb; d.is_constant()) return fold_comparison(intrinsic, d.constant());
    return {};
  }
  switch (intrinsic) {
    case Intrinsic::kAdd:
      if (is_constant(a, 0)) return b;
      if (is_constant(b, 0)) return a;
      break;
    case Intrinsic::kSub:
      if (is_constant(b, 0)) return a;
      if (equal(a, b)) return make_integer(a->type, 0);
      break;
    case Intrinsic::kMul:
      if (is_constant(a, 1)) return b;
      if (is_constant(b, 1)) return a;
      if (is_constant(a, 0)) return a;
      if (is_constant(b, 0)) return b;
      break;
    case Intrinsic::kFloorDiv:
    case Intrinsic::kDiv:
      if (is_constant(b, 1)) return a;
      break;
    case Intrinsic::kMod:
    case Intrinsic::kRem:
      if (is_constant(b, 1)) return make_integer(a->type, 0);
      break;
    default: break;
  }
  return {};
}

}  // namespace

Expr fold_call(Intrinsic intrinsic, const std::vector<Expr>& args) {
  if (intrinsic == Intrinsic::kSelect) {
    if (args[0]->kind == ExprKind::kConstant) return args[0]->integer ? args[1] : args[2];
    return equal(args[1], args[2]) ? args[1] : Expr();
  }
  if (args[0]->type == DType::kBool) return fold_logic(intrinsic, args);
  if (is_integer(args[0]->type)) return fold_integers(intrinsic, args);
  const auto is_one = [](const Expr& e) { return e->kind == ExprKind::kConstant && e->real == 1; };
  if ((intrinsic == Intrinsic::kMul || intrinsic == Intrinsic::kDiv) && is_one(args[1])) return args[0];
  return intrinsic == Intrinsic::kMul && is_one(args[0]) ? args[1] : Expr();
}

Expr fold_cast(DType type, const ExprNode& constant) {
  if (is_float(constant.type)) {
    const double x = constant.real;
    if (type == DType::kFloat32 || type == DType::kFloat64) return make_constant(type, x);
    if (type == DType::kBool) return make_integer(type, x != 0);
    return {};
  }
  const int64_t x = constant.integer;
  if (type == DType::kBool) return make_integer(type, x != 0);
  if (is_integer(type)) return make_integer(type, x);
  if (constant.type == DType::kUint64 && x < 0) return {};
  if (type == DType::kFloat64) return make_constant(type, static_cast<double>(x));
  if (type == DType::kFloat32) return make_constant(type, static_cast<double>(static_cast<float>(x)));
  return {};
}

}  // namespace graft
