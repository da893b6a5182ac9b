// SPDX-License-Identifier: Apache-2.0
// Products of weights that are stored as codes, on a CPU.
#pragma once

#include <string>
#include <vector>

#include "tile/lower.h"

namespace graft::tile {

/// Why a product's weights are not decoded by whoever multiplies them, or an empty text. `constant[t]`: region tensor t
/// is known when compiling.
std::string why_not_decoded(const Region& region, const std::vector<bool>& constant);

/// Panels and pieces that may suit it. Nothing where the strategy does not apply.
std::vector<DecodeSchedule> decode_candidates(const Region& region, const std::vector<bool>& constant,
                                              const Target& target);

Lowered lower_decoded(const Region& region, const Layouts& layouts, const DecodeSchedule& schedule,
                      const Target& target);

}  // namespace graft::tile
