// SPDX-License-Identifier: Apache-2.0
#include "strategy/bounded_indices.h"

#include <algorithm>
#include <unordered_map>

#include "fuse/rewrite_region.h"

namespace graft::tile {
namespace {

constexpr int64_t kFar = int64_t{1} << 40;  // beyond which a bound counts as none

/// All that an index can be, both ends included.
struct Range {
  int64_t low = -kFar, high = kFar;
  [[nodiscard]] bool is_known() const { return low > -kFar && high < kFar; }
};

class Bounding {
 public:
  explicit Bounding(const Form& form) {
    for (const auto& axes : {axes_of(form), inner_axes_of(form)}) {
      for (const Axis& axis : axes) {
        const auto extent = axis.extent.as_constant();
        ranges_[axis.variable->variable] = {0, extent ? std::max<int64_t>(*extent - 1, 0) : kFar};
      }
    }
  }

  Expr run(const Expr& e) {
    return transform(e, [&](const Expr& node) { return rewrite(node); });
  }

 private:
  Expr rewrite(const Expr& node) {
    if (node->kind != ExprKind::kCall || node->args.size() != 2 || node->args[0]->type != DType::kInt64) return {};
    const Expr &a = node->args[0], &b = node->args[1];
    const Range left = range_of(a), right = range_of(b);
    switch (node->intrinsic) {
      case Intrinsic::kMin:
        return ordered(left, right) ? a : ordered(right, left) ? b : Expr();
      case Intrinsic::kMax:
        return ordered(right, left) ? a : ordered(left, right) ? b : Expr();
      case Intrinsic::kMod:
        return remainder(a, left, b);
      case Intrinsic::kLt:
        return decided(ordered(left, right, 1), ordered(right, left));
      case Intrinsic::kGe:
        return decided(ordered(right, left), ordered(left, right, 1));
      case Intrinsic::kLe:
        return decided(ordered(left, right), ordered(right, left, 1));
      case Intrinsic::kGt:
        return decided(ordered(right, left, 1), ordered(left, right));
      default:
        return {};
    }
  }

  /// Whether all of `a` lies at least `apart` below all of `b`.
  static bool ordered(const Range& a, const Range& b, int64_t apart = 0) {
    return a.high < kFar && b.low > -kFar && a.high + apart <= b.low;
  }

  static Expr decided(bool always, bool never) {
    return always || never ? make_integer(DType::kBool, always ? 1 : 0) : Expr();
  }

  Expr remainder(const Expr& a, const Range& range, const Expr& b) {
    const auto by = as_integer(b);
    if (!by || *by <= 0 || range.low < -*by || range.high >= 2 * *by) return {};
    Expr result = a;
    if (range.low < 0) result = select(lt(a, make_index(0)), a + b, result);
    if (range.high >= *by) result = select(ge(a, b), a - b, result);
    // The branches alone would seem to be more than they are where they are taken.
    if (result.get() != a.get()) known_.emplace(result.get(), std::pair(result, Range{0, *by - 1}));
    return result;
  }

  Range range_of(const Expr& e) {
    if (const auto found = known_.find(e.get()); found != known_.end()) return found->second.second;
    Range range = compute(e);
    range = {std::clamp(range.low, -kFar, kFar), std::clamp(range.high, -kFar, kFar)};
    known_.emplace(e.get(), std::pair(e, range));
    return range;
  }

  Range compute(const Expr& e) {
    if (e->type != DType::kInt64) return {};
    if (const auto value = as_integer(e)) return {*value, *value};
    if (e->kind == ExprKind::kSize) return {e->size.is_non_negative() ? 0 : -kFar, kFar};
    if (e->kind == ExprKind::kVariable) {
      const auto found = ranges_.find(e->variable);
      return found == ranges_.end() ? Range{} : found->second;
    }
    if (e->kind != ExprKind::kCall) return {};
    if (e->intrinsic == Intrinsic::kSelect) {
      const Range yes = range_of(e->args[1]), no = range_of(e->args[2]);
      return {std::min(yes.low, no.low), std::max(yes.high, no.high)};
    }
    return e->args.size() == 2 && e->args[0]->type == DType::kInt64 ? of_two(*e) : Range{};
  }

  Range of_two(const ExprNode& e) {
    const Range a = range_of(e.args[0]), b = range_of(e.args[1]);
    switch (e.intrinsic) {
      case Intrinsic::kAdd:
        return {a.low + b.low, a.high + b.high};
      case Intrinsic::kSub:
        return {a.low - b.high, a.high - b.low};
      case Intrinsic::kMin:
        return {std::min(a.low, b.low), std::min(a.high, b.high)};
      case Intrinsic::kMax:
        return {std::max(a.low, b.low), std::max(a.high, b.high)};
      case Intrinsic::kMul:
        return product(a, b);
      case Intrinsic::kMod:
        return b.low > 0 ? Range{0, b.high - 1} : Range{};
      case Intrinsic::kFloorDiv:
        return quotient(a, b);
      default:
        return {};
    }
  }

  static Range product(const Range& a, const Range& b) {
    constexpr int64_t kSmall = int64_t{1} << 20;
    const auto is_small = [](const Range& r) { return r.low >= -kSmall && r.high <= kSmall; };
    if (!is_small(a) || !is_small(b)) return {};
    const auto all = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
    return {std::min(all), std::max(all)};
  }

  static Range quotient(const Range& a, const Range& b) {
    if (b.low != b.high || b.low <= 0 || !a.is_known()) return {};
    const auto floored = [&](int64_t x) { return x >= 0 ? x / b.low : -((-x + b.low - 1) / b.low); };
    return {floored(a.low), floored(a.high)};
  }

  std::unordered_map<int, Range> ranges_;                              // by variable
  std::unordered_map<const ExprNode*, std::pair<Expr, Range>> known_;  // the nodes are kept alive
};

}  // namespace

Region bounded_indices(const Region& region) {
  Region result = region;
  for (Form& form : result.forms) {
    Bounding bounding(form);
    form = map_exprs(form, [&](const Expr& e) { return bounding.run(e); });
  }
  return result;
}

}  // namespace graft::tile
