// SPDX-License-Identifier: Apache-2.0
#include "expr/commutes.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace graft {
namespace {

constexpr int kBudget = 2000;  // steps of a search

bool is_symmetric(Intrinsic intrinsic) {
  switch (intrinsic) {
    case Intrinsic::kAdd:
    case Intrinsic::kMul:
    case Intrinsic::kMin:
    case Intrinsic::kMax:
    case Intrinsic::kAnd:
    case Intrinsic::kOr:
    case Intrinsic::kXor:
    case Intrinsic::kEq:
    case Intrinsic::kNe:
      return true;
    default:
      return false;
  }
}

/// The comparison of exchanged operands.
Intrinsic turned(Intrinsic intrinsic) {
  switch (intrinsic) {
    case Intrinsic::kLt: return Intrinsic::kGt;
    case Intrinsic::kGt: return Intrinsic::kLt;
    case Intrinsic::kLe: return Intrinsic::kGe;
    case Intrinsic::kGe: return Intrinsic::kLe;
    default: return intrinsic;
  }
}

/// Equal up to the order of symmetric operands and the direction of comparisons.
bool same_value(const Expr& a, const Expr& b, int& budget) {
  if (--budget < 0) return false;
  if (equal(a, b)) return true;
  if (a->kind != ExprKind::kCall || b->kind != ExprKind::kCall || a->args.size() != b->args.size()) return false;
  if (a->type != b->type) return false;
  bool same = a->intrinsic == b->intrinsic;
  for (size_t n = 0; n < a->args.size() && same; ++n) same = same_value(a->args[n], b->args[n], budget);
  if (same || a->args.size() != 2) return same;
  const bool compares = turned(a->intrinsic) != a->intrinsic;
  if (compares ? b->intrinsic != turned(a->intrinsic) : b->intrinsic != a->intrinsic || !is_symmetric(a->intrinsic)) {
    return false;
  }
  return same_value(a->args[0], b->args[1], budget) && same_value(a->args[1], b->args[0], budget);
}

/// A component of both states.
struct Values {
  double left = 0, right = 0;
  bool alike() const { return left == right || (std::isnan(left) && std::isnan(right)); }
};

/// Conditions that compare the components of two states with each other, and nothing else: their truth follows from
/// which of two numbers is the larger, and which are NaN.
class Comparison {
 public:
  explicit Comparison(const Monoid& monoid) : monoid_(monoid) {}

  /// Whether all components are taken of the state that one condition says, and the condition says the same state when
  /// both change places.
  bool chooses_alike() {
    const Expr& first = monoid_.combine[0];
    if (!is_call(first, Intrinsic::kSelect)) return false;
    condition_ = first->args[0];
    for (size_t n = 0; n < monoid_.combine.size(); ++n) {
      const Expr& e = monoid_.combine[n];
      const bool chosen = is_call(e, Intrinsic::kSelect) && equal(e->args[0], condition_) &&
                          equal(e->args[1], monoid_.right[n]) && equal(e->args[2], monoid_.left[n]);
      if (!chosen) return false;
    }
    values_.resize(monoid_.combine.size());
    return holds_for(0);
  }

 private:
  /// Tries every order of the components from number `n` on.
  bool holds_for(size_t n) {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    constexpr Values kOrders[] = {{0, 0}, {0, 1}, {1, 0}, {kNan, 0}, {0, kNan}, {kNan, kNan}};
    if (n == values_.size()) return same_choice();
    if (monoid_.left[n]->type != monoid_.right[n]->type || n > 3) return false;
    const size_t orders = is_float(monoid_.left[n]->type) ? std::size(kOrders) : 3;
    for (size_t i = 0; i < orders; ++i) {
      values_[n] = kOrders[i];
      if (!holds_for(n + 1)) return false;
    }
    return true;
  }

  bool same_choice() {
    exchanged_ = false;
    const auto here = truth(condition_);
    exchanged_ = true;
    const auto there = truth(condition_);
    if (!here || !there) return false;
    const bool alike = std::all_of(values_.begin(), values_.end(), [](const Values& each) { return each.alike(); });
    return alike || *here != *there;
  }

  /// The number of a component, and its value, where the expression is one.
  std::optional<std::pair<size_t, double>> component(const Expr& e) const {
    for (size_t n = 0; n < values_.size(); ++n) {
      if (equal(e, monoid_.left[n])) return {{n, exchanged_ ? values_[n].right : values_[n].left}};
      if (equal(e, monoid_.right[n])) return {{n, exchanged_ ? values_[n].left : values_[n].right}};
    }
    return std::nullopt;
  }

  std::optional<bool> truth(const Expr& e) const {
    if (e->kind != ExprKind::kCall || e->type != DType::kBool) return std::nullopt;
    if (e->intrinsic == Intrinsic::kIsNan) {
      const auto value = component(e->args[0]);
      return value ? std::optional(std::isnan(value->second)) : std::nullopt;
    }
    std::vector<std::optional<bool>> parts;
    if (e->args[0]->type == DType::kBool) {
      for (const Expr& arg : e->args) {
        parts.push_back(truth(arg));
        if (!parts.back()) return std::nullopt;
      }
    }
    switch (e->intrinsic) {
      case Intrinsic::kNot: return !*parts[0];
      case Intrinsic::kAnd: return *parts[0] && *parts[1];
      case Intrinsic::kOr: return *parts[0] || *parts[1];
      case Intrinsic::kSelect: return *parts[0] ? parts[1] : parts[2];
      default: break;
    }
    if (!parts.empty() || e->args.size() != 2) return std::nullopt;
    const auto a = component(e->args[0]), b = component(e->args[1]);
    if (!a || !b || a->first != b->first) return std::nullopt;
    switch (e->intrinsic) {
      case Intrinsic::kLt: return a->second < b->second;
      case Intrinsic::kLe: return a->second <= b->second;
      case Intrinsic::kGt: return a->second > b->second;
      case Intrinsic::kGe: return a->second >= b->second;
      case Intrinsic::kEq: return a->second == b->second;
      case Intrinsic::kNe: return a->second != b->second;
      default: return std::nullopt;
    }
  }

  const Monoid& monoid_;
  Expr condition_;
  std::vector<Values> values_;
  bool exchanged_ = false;
};

}  // namespace

bool commutes(const Monoid& monoid) {
  if (!monoid.associative) return false;
  std::vector<std::pair<int, Expr>> exchanged;
  for (size_t n = 0; n < monoid.left.size(); ++n) {
    exchanged.emplace_back(monoid.left[n]->variable, monoid.right[n]);
    exchanged.emplace_back(monoid.right[n]->variable, monoid.left[n]);
  }
  int budget = kBudget;
  const bool same = std::all_of(monoid.combine.begin(), monoid.combine.end(), [&](const Expr& e) {
    return same_value(e, substitute(e, exchanged), budget);
  });
  return same || Comparison(monoid).chooses_alike();
}

}  // namespace graft
