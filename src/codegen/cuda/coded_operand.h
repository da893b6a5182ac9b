// SPDX-License-Identifier: Apache-2.0
// The right operand of a contraction as codes that are decoded on their way to matrix units.
#pragma once

#include <optional>

#include "codegen/cuda/kernel_text.h"

namespace graft::cuda {

/// An operand of 16-bit floats that is (code - zero) * scale, rounded. Codes of 2, 4 or 8 bits lie one after the other
/// along k, the first in the lowest bits of a byte; scale and zero stand still for `block` of them.
struct CodedOperand {
  DType type = DType::kUndefined;
  int bits = 8;
  int64_t block = 0;
  Expr codes, scale, zero;    ///< loads, at k = 0 of the tile; scale and zero are null where they are not there
  int64_t constant_zero = 0;  ///< where zero is null
};

/// The rows of a product of at most 8 of them, known now and along one axis; or 0.
int few_rows(const tile::Contract& contract);
/// How many groups of warps may share the sums over so many places of k: each has whole units of them.
int most_slices(int64_t places);

/// What `b` is made of, or nothing where it is no code. Every place of the tile's k is looked at.
std::optional<CodedOperand> coded_operand(const Expr& b, const tile::Axis& k, const KernelNames& names);

}  // namespace graft::cuda
