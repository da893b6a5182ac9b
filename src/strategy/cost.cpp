// SPDX-License-Identifier: Apache-2.0
#include "strategy/cost.h"

#include <algorithm>
#include <cmath>

#include "fuse/contraction.h"

namespace graft {

double typical_value(const Size& size, const Bindings& typical) {
  return std::max<double>(1, static_cast<double>(size.evaluate(typical)));
}

double extent_of(const std::vector<Axis>& axes, const Bindings& typical) {
  double extent = 1;
  for (const Axis& axis : axes) extent *= typical_value(axis.extent, typical);
  return extent;
}

const Reduce* matrix_product(const Region& region) {
  for (const Form& form : region.forms) {
    const auto* reduce = std::get_if<Reduce>(&form);
    if (reduce && is_matrix_product(*reduce)) return reduce;
  }
  return nullptr;
}

double product_peak(const Region& region, const Target& target, const Peak& peak) {
  const Reduce* reduce = matrix_product(region);
  if (!reduce || target.kind == TargetKind::kCpu) return peak.operations;
  const Expr product = summed_product(*reduce);
  const DType a = unwidened(product->args[0])->type, b = unwidened(product->args[1])->type;
  if (const ContractUnit* unit = best_unit(target, a, b, reduce->lift[0]->type)) return peak.half * unit->rate;
  return region.tf32 && multiplies_tf32(target) ? peak.half / 2 : peak.operations;
}

double fastest_product_peak(const Region& region, const Target& target, const Peak& peak) {
  const double usual = product_peak(region, target, peak);
  const Reduce* reduce = matrix_product(region);
  if (!reduce || region.tf32 || region.fma) return usual;
  const Expr product = summed_product(*reduce);
  const ContractUnit* unit =
      splitting_unit(target, product->args[0]->type, product->args[1]->type, reduce->lift[0]->type);
  return unit ? std::max(usual, peak.half * unit->rate) : usual;
}

double filled(double extent, double tile) { return extent / (std::ceil(extent / tile) * tile); }

double seconds_of(const RegionWork& work, double products, const Peak& peak, const Use& use) {
  const double arithmetic =
      work.products / (products * use.products) + work.elements / (peak.instructions * use.elements);
  return use.start + std::max(arithmetic, work.bytes / (peak.bytes * use.bytes));
}

double seconds_of(const Region& region, const Bindings& typical, const Target& target, const Use& use) {
  const Peak peak = peak_of(target);
  return seconds_of(spelled_work(region, typical), product_peak(region, target, peak), peak, use);
}

}  // namespace graft
