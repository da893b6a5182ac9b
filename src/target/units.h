// SPDX-License-Identifier: Apache-2.0
// Contraction units: which instruction multiplies, what it takes and how its right operand lies. The table is
// units.inc; cost model, layouts, lowering and code generators read its rows.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "target/target.h"

namespace graft {

/// One instruction that multiplies two operands of several elements of k and adds to sums. Those of integers are exact,
/// and wrap; those of floats sum in f32.
struct ContractUnit {
  enum class Scope : uint8_t { kVector, kTile };
  std::string_view name, feature;
  DType a, b, sum;
  int64_t m, n, k;  ///< of one instruction at most; n = 0: as many as a vector has sums
  int64_t pack;     ///< elements of k that lie together in b
  Scope scope;
  double rate;  ///< times that of fp32 multiply-adds
};

/// All rows, the fastest first.
std::span<const ContractUnit> contract_units();
/// The row of that name, or null.
const ContractUnit* find_unit(std::string_view name);
/// Whether the target has the instruction.
bool has_unit(const Target& target, const ContractUnit& unit);
/// The fastest unit of the target for operands of these types, or null: multiply-adds of the sums' own type.
const ContractUnit* best_unit(const Target& target, DType a, DType b, DType sum);

}  // namespace graft
