// SPDX-License-Identifier: Apache-2.0
// Maps behind a matrix product that read several of its columns, a fixed distance apart, for each point: the gates of
// a recurrent cell, the two halves of a gated unit.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "expr/region.h"

namespace graft {

/// Of a product over [..., parts * extent] the map over [..., extent] reads at point [..., j] the columns j,
/// j + extent, ... The axes in front are the same.
struct GatheredColumns {
  int64_t parts = 0, extent = 0;
  bool operator==(const GatheredColumns&) const = default;
};

/// How `map` reads the product, or nothing where it reads it in another way, or not at all. `along` are the tensors
/// over the product's points, `gathered` those that earlier such maps made, which it may read at its own point.
std::optional<GatheredColumns> gathered_columns(const Reduce& product, const Compute& map, const std::set<int>& along,
                                                const std::set<int>& gathered);

/// How the maps of a region do that whose only reduction is a product.
std::optional<GatheredColumns> gathered_columns(const Region& region);

}  // namespace graft
