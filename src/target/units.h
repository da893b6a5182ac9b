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
  /// CPUs: vector registers, tile registers. GPUs: fragments of a warp (mma), tiles in shared memory (wgmma).
  enum class Scope : uint8_t { kVector, kTile, kWarp, kWarpgroup };
  std::string_view name, feature;
  DType a, b, sum;
  int64_t m, n, k;  ///< of one instruction at most; n = 0: as many as a vector has sums
  int64_t pack;     ///< elements of k that must lie together in b; those of a do on GPUs where it is more than 1
  Scope scope;
  double rate;  ///< CPUs: times that of fp32 multiply-adds; GPUs: times that of 16-bit products
  /// Whether it multiplies parts of its operands: it is as accurate as multiply-adds, and no type's default.
  bool splits() const { return a == DType::kFloat32; }
  /// Whether each 128 bits of its vectors hold the sums of two rows by two columns.
  bool sums_blocks() const { return scope == Scope::kVector && m > 1; }
};

/// All rows, the fastest first.
std::span<const ContractUnit> contract_units();
/// The row of that name, or null.
const ContractUnit* find_unit(std::string_view name);
/// Whether the target has the instruction.
bool has_unit(const Target& target, const ContractUnit& unit);
/// The fastest unit of the target for operands of these types, or null: multiply-adds of the sums' own type. Units that
/// split operands are left out.
const ContractUnit* best_unit(const Target& target, DType a, DType b, DType sum);
/// The same among units of one scope.
const ContractUnit* best_unit(const Target& target, DType a, DType b, DType sum, ContractUnit::Scope scope);
/// The unit that splits operands of these types where the target has one that is worth it beside its multiply-adds, or
/// null.
const ContractUnit* splitting_unit(const Target& target, DType a, DType b, DType sum);

}  // namespace graft
