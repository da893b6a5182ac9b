// SPDX-License-Identifier: Apache-2.0
#include "strategy/contract_cost.h"

#include <algorithm>
#include <cmath>

#include "fuse/contraction.h"
#include "fuse/rewrite_region.h"

namespace graft {
namespace {

/// Seconds in which a thread each gathers the right operand one by one: a window whose lanes are not side by side.
double seconds_of_gathering(const Contraction& contraction, const Bindings& typical, const Target& target) {
  const Expr load = is_call(contraction.b, Intrinsic::kSelect) ? contraction.b->args[1] : contraction.b;
  if (load->kind != ExprKind::kLoad || load->args.empty()) return 0;
  const auto uses_any = [](const Expr& index, const std::vector<Axis>& axes) {
    return std::any_of(axes.begin(), axes.end(),
                       [&](const Axis& axis) { return uses_variable(index, axis.variable->variable); });
  };
  const bool slides = std::any_of(load->args.begin(), load->args.end(), [&](const Expr& index) {
    return uses_any(index, contraction.n) && uses_any(index, contraction.k);
  });
  const auto last = affine(load->args.back());
  if (!slides || (last && last->coefficient(contraction.n.back().variable->variable).is(1))) return 0;
  const double elements =
      extent_of(contraction.batch, typical) * extent_of(contraction.n, typical) * extent_of(contraction.k, typical);
  const double clock = peak_of(target).instructions / (2 * target.vector_bits / 32.0);
  return elements / clock;
}

/// Seconds in which threads copy a left operand whose place follows from a division, element by element: a transposed
/// convolution with strides, of which most elements are zeros besides.
double seconds_of_dividing(const Contraction& contraction, const Bindings& typical, const Target& target) {
  constexpr double kCycles = 8;  // of one element: the division, its remainder and the branch around the load
  const Expr load = is_call(contraction.a, Intrinsic::kSelect) ? contraction.a->args[1] : contraction.a;
  if (load->kind != ExprKind::kLoad) return 0;
  const bool divides = std::any_of(load->args.begin(), load->args.end(), [&](const Expr& index) {
    return !affine(index) && std::any_of(contraction.k.begin(), contraction.k.end(), [&](const Axis& axis) {
      return uses_variable(index, axis.variable->variable);
    });
  });
  if (!divides) return 0;
  const double elements =
      extent_of(contraction.batch, typical) * extent_of(contraction.m, typical) * extent_of(contraction.k, typical);
  const double clock = peak_of(target).instructions / (2 * target.vector_bits / 32.0);
  return kCycles * elements / clock;
}

}  // namespace

double seconds_of_splitting(const Region& region, int64_t columns, bool window, const Bindings& typical,
                            const Target& target) {
  // As measured on a Xeon (Sapphire Rapids), times what multiply-adds exceed the share of the peak expected of them by.
  constexpr double kCyclesOfElement = 0.65, kCyclesOfSum = 1.2;
  const Reduce* reduce = matrix_product(region);
  auto contraction = reduce ? find_contraction(*reduce) : std::nullopt;
  if (!contraction) return 0;
  order_reduced_axes(*contraction);
  const double rows = extent_of(contraction->batch, typical) * extent_of(contraction->m, typical);
  const double results = extent_of(contraction->n, typical);
  const double depth = window ? typical_value(contraction->k.back().extent, typical)
                              : extent_of(contraction->k, typical);
  const double copies = std::ceil(results / static_cast<double>(columns));
  const double clock = peak_of(target).instructions / (2 * target.vector_bits / 32.0);
  return (rows * depth * copies * kCyclesOfElement + rows * results * kCyclesOfSum) / clock;
}

Use use_of_contract(const Region& region, const ContractUnit* unit, const Bindings& typical, const Target& target) {
  constexpr double kTiled = 0.6, kMaps = 0.25;
  Use use{kTiled, kMaps, 1, peak_of(target).start};
  const Reduce* reduce = matrix_product(region);
  auto contraction = reduce ? find_contraction(*reduce) : std::nullopt;
  if (!contraction || contraction->m.empty()) return use;
  const double rows = target.vector_registers >= 32 ? 14 : 6;
  // Rows of split operands, and of blocks, are divided evenly.
  const double tile = !unit                 ? rows
                      : unit->splits()      ? 1
                      : unit->sums_blocks() ? static_cast<double>(unit->m)
                      : unit->m > 1         ? 2.0 * static_cast<double>(unit->m)
                                            : rows;
  use.products *= filled(typical_value(contraction->m.back().extent, typical), tile);
  if (unit) {
    // An instruction takes elements of the innermost reduced axis alone: three channels fill a tenth of one.
    order_reduced_axes(*contraction);
    const double depth = typical_value(contraction->k.back().extent, typical);
    use.products *= unit->rate * filled(depth, static_cast<double>(unit->k));
  }
  use.start += seconds_of_gathering(*contraction, typical, target) + seconds_of_dividing(*contraction, typical, target);
  return use;
}

}  // namespace graft
