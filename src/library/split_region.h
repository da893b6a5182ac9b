// SPDX-License-Identifier: Apache-2.0
// Cutting a region behind what a library does of it.
#pragma once

#include <optional>
#include <vector>

#include "expr/region.h"

namespace graft {

/// The operations that follow the product of a normalised region, as far as libraries know any of them; nothing when
/// the region is no product followed by one map.
std::optional<size_t> count_posts(const Region& region);

/// A region in two: `product` ends after the first operations, `rest` is a map that reads its result.
struct RegionParts {
  Region product;
  Region rest;  ///< its last input is the result of `product`, of the shape and type of its own
  std::vector<size_t> product_inputs, rest_inputs;  ///< which inputs of the whole they have, that last one left out
};

/// Cuts a normalised region after `posts` of its operations, less than count_posts gave. Nothing where no value of the
/// region is what they give.
std::optional<RegionParts> split_region(const Region& region, size_t posts);

}  // namespace graft
