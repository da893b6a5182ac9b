// SPDX-License-Identifier: Apache-2.0
// What the cost functions of strategies, and of libraries, share: peaks of a target and the shares of them that are
// reached.
#pragma once

#include <vector>

#include "expr/region.h"
#include "strategy/region_work.h"
#include "target/peak.h"
#include "target/target.h"
#include "target/units.h"

namespace graft {

/// How well a kernel uses what a target has: the shares of its peaks that it reaches, and seconds before the first.
struct Use {
  double products, elements, bytes;
  double start;
};

/// Seconds for `work` with `products` multiplications per second at the peak.
double seconds_of(const RegionWork& work, double products, const Peak& peak, const Use& use);
/// The same for the region's forms as they are spelled.
double seconds_of(const Region& region, const Bindings& typical, const Target& target, const Use& use);

/// At least 1.
double typical_value(const Size& size, const Bindings& typical);
/// The product of the axes' sizes.
double extent_of(const std::vector<Axis>& axes, const Bindings& typical);
/// The share of tiles of `tile` elements that an axis fills.
double filled(double extent, double tile);
/// The region's product of matrices, or null.
const Reduce* matrix_product(const Region& region);
/// Operations in a second of the units that multiply the region's operands.
double product_peak(const Region& region, const Target& target, const Peak& peak);
/// The same, or more where a unit may split them.
double fastest_product_peak(const Region& region, const Target& target, const Peak& peak);

}  // namespace graft
