// SPDX-License-Identifier: Apache-2.0
#include "tile/exact_indices.h"

#include <bit>
#include <cmath>
#include <unordered_map>

namespace graft::tile {
namespace {

constexpr int kMostShift = 12;
constexpr double kLargest = 1 << 20;  // of a constant

/// number / 2^shift
struct Dyadic {
  Expr number;
  int shift = 0;
  bool floored = false;  ///< a floor is in it: worth an expression of its own
};

Expr scaled(const Expr& number, int shift) { return shift == 0 ? number : number * make_index(int64_t{1} << shift); }

class Rewriter {
 public:
  Expr run(const Expr& e) {
    return transform(e, [&](const Expr& node) { return rewrite(node); });
  }

 private:
  /// What stands for a node whose arguments are rewritten already.
  Expr rewrite(const Expr& node) {
    if (is_call(node, Intrinsic::kCast)) {
      const Dyadic* from = find(node->args[0]);
      if (node->type == DType::kFloat64 && node->args[0]->type == DType::kInt64) {
        if (affine(node->args[0])) keep(node, {node->args[0], 0, false});
        return {};
      }
      if (!from || !from->floored) return {};
      if (node->type == DType::kInt64) return from->shift == 0 ? from->number : Expr();
      return is_float(node->type) && node->type != DType::kFloat64 && bit_width(node->type) >= 32
                 ? value_of(*from, node->type)
                 : Expr();
    }
    if (node->type != DType::kFloat64) return {};
    if (const auto found = dyadic(node)) keep(node, *found);
    return {};
  }

  static std::optional<Dyadic> constant(double value) {
    for (int shift = 0; shift <= kMostShift; ++shift, value *= 2) {
      if (std::abs(value) > kLargest) return std::nullopt;
      if (value == std::floor(value)) return Dyadic{make_index(static_cast<int64_t>(value)), shift, false};
    }
    return std::nullopt;
  }

  std::optional<Dyadic> operand(const Expr& e) const {
    if (e->kind == ExprKind::kConstant && e->type == DType::kFloat64) return constant(e->real);
    if (const Dyadic* known = find(e)) return *known;
    return std::nullopt;
  }

  std::optional<Dyadic> dyadic(const Expr& node) const {
    if (node->kind != ExprKind::kCall) return std::nullopt;
    std::vector<Dyadic> args;
    bool known = false;
    for (const Expr& arg : node->args) {
      const auto each = operand(arg);
      if (!each) return std::nullopt;
      known |= arg->kind != ExprKind::kConstant;
      args.push_back(*each);
    }
    if (!known) return std::nullopt;
    const Dyadic& a = args[0];
    if (args.size() == 1) {
      switch (node->intrinsic) {
        case Intrinsic::kFloor:
          return Dyadic{floor_of(a), 0, true};
        case Intrinsic::kCeil:
          return Dyadic{-floor_of({-a.number, a.shift}), 0, true};
        case Intrinsic::kAbs:
          return Dyadic{abs(a.number), a.shift, a.floored};
        default:
          return std::nullopt;
      }
    }
    return args.size() == 2 ? combined(node->intrinsic, a, args[1]) : std::nullopt;
  }

  static Expr floor_of(const Dyadic& a) {
    return a.shift == 0 ? a.number : floor_div(a.number, make_index(int64_t{1} << a.shift));
  }

  static std::optional<Dyadic> combined(Intrinsic intrinsic, const Dyadic& a, const Dyadic& b) {
    const int shift = std::max(a.shift, b.shift);
    const Expr left = scaled(a.number, shift - a.shift), right = scaled(b.number, shift - b.shift);
    const bool floored = a.floored || b.floored;
    switch (intrinsic) {
      case Intrinsic::kAdd:
        return Dyadic{left + right, shift, floored};
      case Intrinsic::kSub:
        return Dyadic{left - right, shift, floored};
      case Intrinsic::kMin:
        return Dyadic{min(left, right), shift, floored};
      case Intrinsic::kMax:
        return Dyadic{max(left, right), shift, floored};
      default:
        break;
    }
    const auto by = as_integer(b.number);
    if (intrinsic == Intrinsic::kMul && (by || as_integer(a.number)) && a.shift + b.shift <= kMostShift) {
      return Dyadic{a.number * b.number, a.shift + b.shift, floored};
    }
    if (intrinsic != Intrinsic::kDiv || !by || *by <= 0 || (*by & (*by - 1)) != 0) return std::nullopt;
    const int left_over = a.shift + std::countr_zero(static_cast<uint64_t>(*by)) - b.shift;
    if (left_over > kMostShift) return std::nullopt;
    return Dyadic{scaled(a.number, std::max(-left_over, 0)), std::max(left_over, 0), floored};
  }

  static Expr value_of(const Dyadic& dyadic, DType type) {
    const Expr number = make_cast(type, dyadic.number);
    return dyadic.shift == 0 ? number : number * make_constant(type, std::ldexp(1.0, -dyadic.shift));
  }

  const Dyadic* find(const Expr& e) const {
    const auto found = known_.find(e.get());
    return found == known_.end() ? nullptr : &found->second.second;
  }
  void keep(const Expr& node, Dyadic dyadic) { known_.emplace(node.get(), std::pair(node, std::move(dyadic))); }

  std::unordered_map<const ExprNode*, std::pair<Expr, Dyadic>> known_;  // the nodes are kept alive
};

}  // namespace

Expr exact_indices(const Expr& e) { return Rewriter().run(e); }

}  // namespace graft::tile
