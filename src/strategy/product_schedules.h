// SPDX-License-Identifier: Apache-2.0
// Schedules of products for the blocks of a GPU, by a model of what they cost.
#pragma once

#include <vector>

#include "expr/region.h"
#include "fuse/contraction.h"
#include "target/target.h"
#include "strategy/product.h"

namespace graft {

/// What the cost model sees of a contraction, at typical sizes.
struct ContractionSizes {
  int64_t rows = 1, columns = 1, batch = 1, depth = 1;
  int64_t first_depth = 1;  ///< of the first reduced axis
  int64_t element_bytes = 4;
  DType sum = DType::kFloat32;
  bool is_window = false;  ///< a convolution: several reduced axes over several row axes
  bool is_packed = false;  ///< its right operand is constant and lies in panels
};
ContractionSizes sizes_of(const Contraction& contraction, DType type, const Bindings& typical);

/// The product of the axes' sizes.
int64_t typical_extent(const std::vector<Axis>& axes, const Bindings& typical);

/// Schedules of a product for a GPU, the cost model's favourite first; `constant`: by tensor of the region.
void add_products(std::vector<tile::Schedule>& schedules, const Region& region, Contraction contraction,
                  ContractionSizes sizes, const std::vector<bool>& constant, const Bindings& typical,
                  const Target& target);

}  // namespace graft
