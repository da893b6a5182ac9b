// SPDX-License-Identifier: Apache-2.0
#include "strategy/region_work.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "fuse/rewrite_region.h"

namespace graft {
namespace {

double elements_of(const Shape& shape, const Bindings& typical) {
  double elements = 1;
  for (const Size& size : shape) elements *= std::max(0.0, size_at(size, typical));
  return elements;
}

double points_of(const std::vector<Axis>& axes, const Bindings& typical) {
  double points = 1;
  for (const Axis& axis : axes) points *= std::max(1.0, size_at(axis.extent, typical));
  return points;
}

/// Simple operations of one call, beside what its arguments take; none for index arithmetic, tests and conversions.
double cost_of_call(const ExprNode& node) {
  if (node.kind != ExprKind::kCall || node.type == DType::kInt64 || node.type == DType::kBool) return 0;
  switch (node.intrinsic) {
    case Intrinsic::kSelect:
    case Intrinsic::kCast: return 0;
    case Intrinsic::kDiv:
    case Intrinsic::kSqrt: return 5;
    default: break;
  }
  const bool cheap = node.intrinsic < Intrinsic::kPow || node.intrinsic == Intrinsic::kFma ||
                     node.intrinsic == Intrinsic::kNeg || node.intrinsic == Intrinsic::kAbs ||
                     node.intrinsic >= Intrinsic::kFloor;
  return cheap ? 1 : 20;
}

Expr without_casts(Expr e) {
  while (is_call(e, Intrinsic::kCast)) e = e->args[0];
  return e;
}

/// On what the value of an expression depends: variables, and the index expressions by which they reach it. Indices
/// that differ by a constant are one, which takes as many values as its range.
struct Dependence {
  std::set<int> variables;
  std::map<std::string, double> indices;  ///< their ranges

  void add(const Dependence& other) {
    variables.insert(other.variables.begin(), other.variables.end());
    indices.insert(other.indices.begin(), other.indices.end());
  }
};

/// How often the parts of one form are computed.
class FormCounter {
 public:
  FormCounter(const Form& form, const Bindings& typical) : typical_(typical) {
    const std::vector<Axis>& axes = axes_of(form);
    const std::vector<Axis> inner = inner_axes_of(form);
    for (const auto& list : {axes, inner}) {
      for (const Axis& axis : list) extents_[axis.variable->variable] = std::max(1.0, size_at(axis.extent, typical));
    }
    points_ = points_of(axes, typical) * points_of(inner, typical);
    for (const Axis& axis : inner) innermost_.insert(axis.variable->variable);
    if (!axes.empty()) innermost_.insert(axes.back().variable->variable);
    for (const int variable : innermost_) innermost_points_ *= extents_[variable];
  }

  double points() const { return points_; }

  /// Different values that an expression can take.
  double different(const Expr& e) {
    const Dependence& on = dependence(e);
    double by_variables = 1, by_indices = 1;
    for (const int variable : on.variables) by_variables *= extent(variable);
    for (const auto& [index, range] : on.indices) by_indices *= range;
    return std::min(by_variables, by_indices);
  }

  /// How often a nest of loops computes it.
  double computed(const Expr& e) {
    const std::set<int>& variables = dependence(e).variables;
    const bool inside = std::any_of(innermost_.begin(), innermost_.end(),
                                    [&](int variable) { return variables.contains(variable); });
    return inside ? points_ : points_ / innermost_points_;
  }

 private:
  double extent(int variable) const {
    const auto known = extents_.find(variable);
    return known == extents_.end() ? 1 : known->second;
  }

  const Dependence& dependence(const Expr& e) {
    if (const auto known = known_.find(e.get()); known != known_.end()) return known->second;
    Dependence on;
    if (e->kind == ExprKind::kVariable && !extents_.contains(e->variable)) {
      // A state, which is another at each point.
      for (const auto& [variable, range] : extents_) on.variables.insert(variable);
      on.indices.emplace("state", points_);
    } else if (e->type == DType::kInt64 && e->kind != ExprKind::kLoad) {
      on = of_index(e);
    } else {
      for (const Expr& argument : e->args) on.add(dependence(argument));
    }
    return known_.emplace(e.get(), std::move(on)).first->second;
  }

  Dependence of_index(const Expr& e) {
    Dependence on;
    for_each(e, [&](const Expr& node) {
      if (node->kind == ExprKind::kVariable && extents_.contains(node->variable)) on.variables.insert(node->variable);
    });
    if (on.variables.empty()) return on;
    std::string name;
    double range = 1;
    if (const auto form = affine(e)) {
      for (const auto& [variable, coefficient] : form->coefficients) {
        name += std::to_string(variable) + "*" + coefficient.to_string() + " ";
        range += std::abs(size_at(coefficient, typical_)) * (extent(variable) - 1);
      }
    } else {
      name = "node " + std::to_string(reinterpret_cast<uintptr_t>(e.get()));
      for (const int variable : on.variables) range *= extent(variable);
    }
    on.indices.emplace(std::move(name), range);
    return on;
  }

  const Bindings& typical_;
  std::map<int, double> extents_;
  std::set<int> innermost_;
  double points_ = 1, innermost_points_ = 1;
  std::unordered_map<const ExprNode*, Dependence> known_;
};

/// The work of a form without bytes, and what it reads: elements by tensor.
RegionWork work_of(const Form& form, const Bindings& typical, bool least, std::map<int, double>& read) {
  FormCounter counter(form, typical);
  RegionWork work{.points = counter.points()};
  const auto* reduce = std::get_if<Reduce>(&form);
  const Expr product = reduce ? summed_product(*reduce) : Expr();
  const bool is_matrix = product && is_matrix_product(*reduce);
  if (is_matrix) work.products += 2 * counter.points();
  if (const auto* sort = std::get_if<Sort>(&form)) {
    work.elements += counter.points() * (1 + std::log2(std::max(1.0, size_at(sort->axis.extent, typical))));
  }
  if (const auto* scatter = std::get_if<Scatter>(&form)) read[scatter->base] = std::numeric_limits<double>::infinity();
  std::set<const ExprNode*> seen;
  const auto add_node = [&](const Expr& node) {
    if (!seen.insert(node.get()).second) return;
    if (node->kind == ExprKind::kLoad) read[node->tensor] += counter.different(node);
    // A multiplication and the addition that follows are one operation.
    const double cost = product && node.get() == product.get() ? 0 : cost_of_call(*node);
    if (cost > 0) work.elements += cost * (least ? counter.different(node) : counter.computed(node));
  };
  for_each_expr(form, [&](const Expr& e) { for_each(e, add_node); });
  if (reduce && !is_matrix) {
    for (const Expr& e : reduce->monoid.combine) for_each(e, add_node);
  }
  return work;
}

RegionWork work_of(const Region& region, const Bindings& typical, bool least) {
  RegionWork work;
  std::map<int, double> read;
  for (const Form& form : region.forms) {
    const RegionWork part = work_of(form, typical, least, read);
    work.products += part.products;
    work.elements += part.elements;
    work.points += part.points;
  }
  const auto add_bytes = [&](int tensor, double elements) {
    work.bytes += elements * bit_width(region.tensors[tensor].type) / 8.0;
  };
  for (const int input : region.inputs) {
    add_bytes(input, std::min(elements_of(region.tensors[input].shape, typical), read[input]));
  }
  for (const int output : region.outputs) add_bytes(output, elements_of(region.tensors[output].shape, typical));
  return work;
}

}  // namespace

double size_at(const Size& size, const Bindings& typical) {
  constexpr double kUnknown = 32;
  std::set<std::string, std::less<>> symbols;
  size.collect_symbols(symbols);
  for (const std::string& symbol : symbols) {
    if (!typical.contains(symbol)) return kUnknown;
  }
  return static_cast<double>(size.evaluate(typical));
}

Expr summed_product(const Reduce& reduce) {
  if (reduce.lift.size() != 1 || reduce.monoid.intrinsic() != Intrinsic::kAdd) return {};
  const Expr product = without_casts(reduce.lift[0]);
  return is_call(product, Intrinsic::kMul) ? product : Expr();
}

RegionWork least_work(const Region& region, const Bindings& typical) {
  return work_of(region, typical, true);
}

RegionWork spelled_work(const Region& region, const Bindings& typical) {
  return work_of(region, typical, false);
}

RegionWork spelled_work(const Form& form, const Bindings& typical) {
  std::map<int, double> read;
  return work_of(form, typical, false, read);
}

bool is_matrix_product(const Reduce& reduce) {
  const Expr product = summed_product(reduce);
  if (!product || reduce.reduced.empty()) return false;
  const auto has_own_axis = [&](const Expr& side, const Expr& other) {
    return std::any_of(reduce.axes.begin(), reduce.axes.end(), [&](const Axis& axis) {
      const int variable = axis.variable->variable;
      return !axis.extent.is(1) && uses_variable(side, variable) && !uses_variable(other, variable);
    });
  };
  const Expr &a = product->args[0], &b = product->args[1];
  return has_own_axis(a, b) && has_own_axis(b, a);
}

}  // namespace graft
