// SPDX-License-Identifier: Apache-2.0
// The register tile of a contraction: a function of its own, shared by all contractions of a unit with the same shape.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "target/units.h"

namespace graft::codegen {

/// What a micro-kernel is specialised for. c[rows, vectors * lanes] (+)= sum over k of a[row, k] * b[k, column].
/// The function takes (a, b, c, row stride of a, row stride of c, columns, k step of a, k step of b, extent of k, and
/// per outer k axis its extent and the steps of a and b along it); all counts are i64, strides are in elements.
struct MicroKernelShape {
  int rows = 1, vectors = 1, lanes = 1;
  DType a = DType::kFloat32, b = DType::kFloat32, c = DType::kFloat32;
  std::optional<int64_t> a_step, b_step;  ///< known steps along the innermost k axis
  int outer_axes = 0;                     ///< k axes around the innermost one
  bool masked = false;                    ///< only the first `columns` columns exist
  bool accumulate = false;
  bool a_registers = false;  ///< a comes by registers of several steps: they lie together, instructions take elements
  int64_t rows_ahead = 0;              ///< of tiles: rows of b that each step asks for ahead
  const ContractUnit* unit = nullptr;  ///< of vectors: the innermost k axis goes in steps of its pack

  std::string name() const;
  bool sums_blocks() const { return unit && unit->sums_blocks(); }
  /// Of sums, and of the left operand in registers, where it sums blocks.
  int row_pairs() const { return (rows + 1) / 2; }
  /// Rows of the largest tile with these vectors whose accumulators fit into so many registers.
  int most_rows(int registers, bool fma) const;
};

/// Positions of the parameters; behind kOuter three for each outer k axis.
enum Parameter : unsigned { kA, kB, kC, kRowsA, kRowsC, kColumns, kStepA, kStepB, kExtent, kOuter };

}  // namespace graft::codegen
