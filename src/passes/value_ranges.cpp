// SPDX-License-Identifier: Apache-2.0
#include "passes/value_ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace graft::passes {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr ValueRange kAnything{-kInfinity, kInfinity};
constexpr int64_t kOpenSize = 64;  // of an axis that a symbol stands for

/// The interval around some numbers; anything if one of them is none.
ValueRange around(std::initializer_list<double> numbers) {
  if (std::any_of(numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); })) return kAnything;
  return {std::min(numbers), std::max(numbers)};
}

ValueRange hull(const ValueRange& a, const ValueRange& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

/// What is 0 times infinity here: the bound stands for large numbers, not for an infinite one.
double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

ValueRange product(const ValueRange& a, const ValueRange& b) {
  return around({times(a.low, b.low), times(a.low, b.high), times(a.high, b.low), times(a.high, b.high)});
}

ValueRange quotient(const ValueRange& a, const ValueRange& b) {
  if (b.low <= 0 && b.high >= 0) return a == ValueRange{} ? a : kAnything;
  return product(a, around({1 / b.low, 1 / b.high}));
}

ValueRange power(const ValueRange& a, const ValueRange& b) {
  if (a.low < 0 && (b.low != b.high || b.low != std::floor(b.low))) return kAnything;
  if (a.low <= 0 && a.high >= 0 && b.low < 0) return kAnything;
  ValueRange result =
      around({std::pow(a.low, b.low), std::pow(a.low, b.high), std::pow(a.high, b.low), std::pow(a.high, b.high)});
  return a.low < 0 && a.high > 0 ? hull(result, {}) : result;
}

double size_of(const Size& size) {
  if (const auto known = size.as_constant()) return static_cast<double>(*known);
  std::set<std::string, std::less<>> symbols;
  size.collect_symbols(symbols);
  Bindings bindings;
  for (const std::string& symbol : symbols) bindings[symbol] = kOpenSize;
  return static_cast<double>(size.evaluate(bindings));
}

double points(const std::vector<Axis>& axes) {
  double count = 1;
  for (const Axis& axis : axes) count *= size_of(axis.extent);
  return count;
}

Expr without_casts(Expr e) {
  while (is_call(e, Intrinsic::kCast) && is_float(e->type)) e = e->args[0];
  return e;
}

/// A load of the tensor, perhaps converted.
int loaded_tensor(const Expr& e) {
  const Expr load = without_casts(e);
  return load && load->kind == ExprKind::kLoad ? load->tensor : -1;
}

/// The forms of one region, in their order.
class Ranges {
 public:
  Ranges(const Region& region, const std::vector<ValueRange>& inputs)
      : region_(region), ranges_(region.tensors.size(), kAnything) {
    for (size_t k = 0; k < region.inputs.size(); ++k) ranges_[region.inputs[k]] = inputs[k];
  }

  std::vector<ValueRange> run() {
    for (const Form& form : region_.forms) {
      known_.clear();
      std::visit([&](const auto& each) { enter(each); }, form);
    }
    return std::move(ranges_);
  }

 private:
  void bind(const std::vector<Axis>& axes) {
    for (const Axis& axis : axes) variables_[axis.variable->variable] = {0, std::max(size_of(axis.extent) - 1, 0.0)};
  }

  void enter(const Compute& form) {
    bind(form.axes);
    ranges_[form.output] = of(form.value);
  }

  void enter(const Reduce& form) {
    bind(form.axes), bind(form.reduced);
    std::vector<ValueRange> lifted;
    for (const Expr& each : form.lift) lifted.push_back(of(each));
    const double count = points(form.reduced);
    const auto intrinsic = form.monoid.intrinsic();
    if (intrinsic == Intrinsic::kAdd) {
      ranges_[form.outputs[0]] = hull(product(lifted[0], {count, count}), {});
      if (const int part = loaded_tensor(form.lift[0]); part >= 0 && lifted[0].low >= 0) sums_[form.outputs[0]] = part;
    } else if (intrinsic == Intrinsic::kMul) {
      const double largest = std::pow(lifted[0].magnitude(), count);
      ranges_[form.outputs[0]] = {lifted[0].low < 0 ? -largest : 0, std::max(largest, 1.0)};
    } else if (intrinsic) {
      ranges_[form.outputs[0]] = lifted[0];
      if (intrinsic == Intrinsic::kMax) largest_[form.outputs[0]] = loaded_tensor(form.lift[0]);
    } else {
      combine(form, lifted);
    }
  }

  /// A choice among elements stays within them; whatever leaves them in one step may go on.
  void combine(const Reduce& form, const std::vector<ValueRange>& lifted) {
    for (size_t k = 0; k < lifted.size(); ++k) {
      variables_[form.monoid.left[k]->variable] = variables_[form.monoid.right[k]->variable] = lifted[k];
    }
    for (size_t k = 0; k < lifted.size(); ++k) {
      const ValueRange combined = of(form.monoid.combine[k]);
      ranges_[form.outputs[k]] = hull(combined, lifted[k]) == lifted[k] ? lifted[k] : kAnything;
    }
  }

  void enter(const Scan& form) {
    bind(form.axes), bind({form.axis});
    std::vector<ValueRange> states;
    for (const Expr& each : form.initial) states.push_back(of(each));
    for (int turn = 0; turn < 2; ++turn) {  // what one more step does not widen holds for all
      for (size_t k = 0; k < states.size(); ++k) variables_[form.state[k]->variable] = states[k];
      known_.clear();
      for (size_t k = 0; k < states.size(); ++k) {
        const ValueRange next = hull(states[k], of(form.step[k]));
        states[k] = turn == 0 || next == states[k] ? next : kAnything;
      }
    }
    for (size_t k = 0; k < states.size(); ++k) variables_[form.state[k]->variable] = states[k];
    known_.clear();
    for (size_t k = 0; k < form.outputs.size(); ++k) ranges_[form.outputs[k]] = of(form.emit[k]);
  }

  void enter(const Scatter& form) {
    bind(form.axes);
    const ValueRange base = ranges_[form.base], value = of(form.value);
    ValueRange& result = ranges_[form.output];
    switch (form.mode) {
      case ScatterMode::kAdd: {
        const double count = points(form.axes);
        const ValueRange sum = hull(product(value, {count, count}), {});
        result = {base.low + sum.low, base.high + sum.high};
        return;
      }
      case ScatterMode::kMul:
        result = kAnything;
        return;
      case ScatterMode::kSet:
      case ScatterMode::kMin:
      case ScatterMode::kMax:
        result = hull(base, value);
    }
  }

  void enter(const Sort& form) {
    bind(form.axes), bind({form.axis});
    ranges_[form.outputs[0]] = of(form.key);
    if (form.outputs.size() > 1) ranges_[form.outputs[1]] = {0, size_of(form.axis.extent)};
  }

  void enter(const Compact& form) {
    bind(form.axes);
    for (size_t k = 0; k < form.outputs.size(); ++k) ranges_[form.outputs[k]] = of(form.values[k]);
  }

  ValueRange of(const Expr& e) {
    for (const auto& [expr, range] : assumed_) {
      if (equal(expr, e)) return range;
    }
    if (!assumed_.empty()) return computed(e);
    const auto found = known_.find(e.get());
    if (found != known_.end()) return found->second;
    return known_[e.get()] = computed(e);
  }

  ValueRange computed(const Expr& e) {
    switch (e->kind) {
      case ExprKind::kConstant: {
        const double value = is_float(e->type) ? e->real : static_cast<double>(e->integer);
        return around({value, value});
      }
      case ExprKind::kVariable: {
        const auto bound = variables_.find(e->variable);
        return bound == variables_.end() ? kAnything : bound->second;
      }
      case ExprKind::kSize:
        return {size_of(e->size), size_of(e->size)};
      case ExprKind::kLoad:
        return ranges_[e->tensor];
      case ExprKind::kCall:
        return called(e);
    }
    return kAnything;
  }

  /// Each branch of a choice by comparison with a constant knows on which side of it the operand is.
  ValueRange chosen(const Expr& e) {
    const Expr& condition = e->args[0];
    const bool less = is_call(condition, Intrinsic::kLt) || is_call(condition, Intrinsic::kLe);
    const bool greater = is_call(condition, Intrinsic::kGt) || is_call(condition, Intrinsic::kGe);
    if ((!less && !greater) || assumed_.size() > 3) return hull(of(e->args[1]), of(e->args[2]));
    const Expr &operand = condition->args[0], &limit = condition->args[1];
    const ValueRange all = of(operand), at = of(limit);
    const ValueRange below{all.low, std::min(all.high, at.high)}, above{std::max(all.low, at.low), all.high};
    const auto within = [&](const ValueRange& range, const Expr& branch) -> std::optional<ValueRange> {
      if (range.low > range.high) return std::nullopt;
      assumed_.emplace_back(operand, range);
      const ValueRange result = of(branch);
      assumed_.pop_back();
      return result;
    };
    const auto first = within(less ? below : above, e->args[1]), second = within(less ? above : below, e->args[2]);
    if (!first || !second) return first ? *first : second.value_or(kAnything);
    return hull(*first, *second);
  }

  ValueRange difference(const Expr& e) {
    const ValueRange a = of(e->args[0]), b = of(e->args[1]);
    ValueRange result = around({a.low - b.high, a.high - b.low});
    const auto row = largest_.find(loaded_tensor(e->args[1]));
    if (row != largest_.end() && row->second >= 0 && row->second == loaded_tensor(e->args[0])) {
      result.high = std::min(result.high, 0.0);
    }
    return result;
  }

  ValueRange divided(const Expr& e) {
    const auto sum = sums_.find(loaded_tensor(e->args[1]));
    if (sum != sums_.end() && sum->second == loaded_tensor(e->args[0])) return {0, 1};
    return quotient(of(e->args[0]), of(e->args[1]));
  }

  ValueRange called(const Expr& e) {
    using enum Intrinsic;
    if (e->intrinsic == kSelect) return chosen(e);
    if (e->intrinsic == kSub) return difference(e);
    if (e->intrinsic == kDiv) return divided(e);
    std::vector<ValueRange> args;
    for (const Expr& each : e->args) args.push_back(of(each));
    const ValueRange &a = args[0], &b = args.back();
    const auto rising = [&](double (*function)(double)) { return around({function(a.low), function(a.high)}); };
    // Functions that are defined for some numbers alone.
    const auto within = [&](double low, double high, double (*function)(double)) {
      return a.low < low || a.high > high ? kAnything : rising(function);
    };
    switch (e->intrinsic) {
      case kAdd:
        return around({a.low + b.low, a.high + b.high});
      case kMul: {
        const ValueRange all = product(a, b);
        return equal(e->args[0], e->args[1]) ? ValueRange{std::max(all.low, 0.0), all.high} : all;
      }
      case kFma: {
        const ValueRange both = product(a, args[1]);
        return around({both.low + b.low, both.high + b.high});
      }
      case kFloorDiv: {
        const ValueRange result = quotient(a, b);
        return {result.low - 1, result.high};
      }
      case kRem:
      case kMod:
        return {-b.magnitude(), b.magnitude()};
      case kMin:
        return {std::min(a.low, b.low), std::min(a.high, b.high)};
      case kMax:
        return {std::max(a.low, b.low), std::max(a.high, b.high)};
      case kPow:
        return power(a, b);
      case kNeg:
        return {-a.high, -a.low};
      case kAbs:
        return {a.low > 0 ? a.low : a.high < 0 ? -a.high : 0, a.magnitude()};
      case kSqrt:
        return within(0, kInfinity, std::sqrt);
      case kExp:
        return rising(std::exp);
      case kExp2:
        return rising(std::exp2);
      case kLog:
        return within(0, kInfinity, std::log);
      case kLog1p:
        return within(-1, kInfinity, std::log1p);
      case kExpm1:
        return rising(std::expm1);
      case kErf:
        return rising(std::erf);
      case kTanh:
        return rising(std::tanh);
      case kAtan:
        return rising(std::atan);
      case kAsinh:
        return rising(std::asinh);
      case kSinh:
        return rising(std::sinh);
      case kCosh:
        return {1, std::cosh(a.magnitude())};
      case kSin:
      case kCos:
        return {-1, 1};
      case kAsin:
        return {-2, 2};
      case kAcos:
        return {0, 4};
      case kAcosh:
        return within(1, kInfinity, std::acosh);
      case kAtanh:
        return within(-1, 1, std::atanh);
      case kFloor:
        return rising(std::floor);
      case kCeil:
        return rising(std::ceil);
      case kTrunc:
        return rising(std::trunc);
      case kRound:
        return rising(std::nearbyint);
      case kCast:
        return e->type == DType::kBool ? ValueRange{0, 1} : a;
      case kCheckIndex:
      case kCheckDivisor:
        return a;
      case kIsNan:
      case kIsInf:
      case kEq:
      case kNe:
      case kLt:
      case kLe:
      case kGt:
      case kGe:
        return {0, 1};
      case kAnd:
      case kOr:
      case kXor:
      case kNot:
        return e->type == DType::kBool ? ValueRange{0, 1} : kAnything;
      default:
        return kAnything;
    }
  }

  const Region& region_;
  std::vector<ValueRange> ranges_;
  std::map<int, ValueRange> variables_;
  std::map<const ExprNode*, ValueRange> known_;
  std::vector<std::pair<Expr, ValueRange>> assumed_;  ///< in the branch of a choice
  std::map<int, int> largest_, sums_;                 ///< the tensor of whose rows one holds the largest, or the sum
};

}  // namespace

double ValueRange::magnitude() const { return std::max(std::abs(low), std::abs(high)); }

std::vector<ValueRange> value_ranges(const Region& region, const std::vector<ValueRange>& inputs) {
  return Ranges(region, inputs).run();
}

}  // namespace graft::passes
