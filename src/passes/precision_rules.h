// SPDX-License-Identifier: Apache-2.0
// Which operators take a narrower float than f32, as precision_rules.inc lists them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/graph.h"

namespace graft::passes {

/// What a node does in a network that computes in a low type.
enum class PrecisionRule : uint8_t {
  kLow,     ///< its inputs are cast to the low type
  kFollow,  ///< low when all of its inputs are
  kWide,    ///< f32
};

/// A row of the list.
struct PrecisionRow {
  PrecisionRule rule = PrecisionRule::kWide;
  uint32_t kept = 0;  ///< bit i: input i stays as it is

  bool keeps(size_t input) const { return input < 32 && (kept >> input & 1) != 0; }
};

/// The row of the node's operator, or null when the list lacks it.
const PrecisionRow* find_precision_row(const Node& node);

}  // namespace graft::passes
