// SPDX-License-Identifier: Apache-2.0
// Which operators take a narrower float than f32: what their definitions say, and precision_rules.inc where these do
// not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "graph/op_def.h"

namespace graft::passes {

/// What a node does in a network that computes in a low type.
enum class PrecisionRule : uint8_t {
  kLow,     ///< its inputs are cast to the low type
  kFollow,  ///< low when all of its inputs are
  kWide,    ///< f32
};

/// What an operator's definition says: low for sums of products of two tensors; f32 for what has no f32 operands or
/// whose results can be much larger than its operands: sums over many elements, exponentials, what has a pole; else it
/// follows.
PrecisionRule derived_rule(const OpDef& op);

/// How an operator behaves.
struct PrecisionRow {
  PrecisionRule rule = PrecisionRule::kWide;
  uint32_t kept = 0;  ///< bit i: input i stays as it is

  bool keeps(size_t input) const { return input < 32 && (kept >> input & 1) != 0; }
};

/// The row of an operator by its name, or null for one that is not Graft's.
const PrecisionRow* find_precision_row(std::string_view op);
/// The row of the node's operator, or null when it is not one of ours.
const PrecisionRow* find_precision_row(const Node& node);

}  // namespace graft::passes
