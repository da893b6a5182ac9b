// SPDX-License-Identifier: Apache-2.0
// Cutting a region behind what a library does of it.
#pragma once

#include <optional>
#include <vector>

#include "expr/region.h"

namespace graft {

/// In how many places a normalised region can be cut: right behind its product, and behind each operation after it
/// through which all that is made of the product passes. 0 when it is no product followed by maps.
size_t count_cuts(const Region& region);

/// A region in two: `product` ends after the first operations, `rest` is a map that reads its result.
struct RegionParts {
  Region product;
  Region rest;  ///< its last input is the result of `product`, of the shape and type of its own
  std::vector<size_t> product_inputs, rest_inputs;  ///< which inputs of the whole they have, that last one left out
};

/// Cuts a normalised region in one of its places, the first right behind the product; nothing where there is none.
std::optional<RegionParts> split_region(const Region& region, size_t cut);

}  // namespace graft
