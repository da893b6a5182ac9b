// SPDX-License-Identifier: Apache-2.0
// What is known of an operand's addresses before a kernel is written: what it loads under which condition, along which
// axis 16 bytes lie together, and how far they are aligned.
#pragma once

#include "codegen/cuda/kernel_text.h"

namespace graft::cuda {

/// An operand that is a load, perhaps zero where a condition does not hold.
struct GuardedLoad {
  Expr load, condition;  ///< `condition` null: always
};
/// Nothing when the operand is any other expression.
std::optional<GuardedLoad> guarded_load(const Expr& operand);

/// How far an index moves when `variable` takes one step inside a run of `run` values that begins at a multiple of
/// `run`, or nothing when that is not the same everywhere in it.
std::optional<Size> step_in_run(const Expr& index, int variable, int run);

/// The power of two, at most `most`, that surely divides the value. `variable`, if any, is a multiple of `most`.
int64_t divisor_of(const Expr& value, int variable, int64_t most);
int64_t divisor_of(const Size& size, int64_t most);

/// The least that the value's magnitude surely stays below; `bounds` are those of variables.
int64_t magnitude_of(const Expr& value, const std::unordered_map<int, int64_t>& bounds);

/// An expression in which all that does not change with the loops has been given names.
struct Hoisted {
  std::vector<std::pair<Expr, Expr>> named;  ///< variable, value
};

/// Names the parts of an index that are not affine; false when one of them changes with the loops.
bool name_atoms(Expr& index, const std::vector<int>& loops, Hoisted& hoisted);
/// Names the largest parts that do not change with the loops.
Expr name_invariants(const Expr& e, const std::vector<int>& loops, Hoisted& hoisted);
/// Whether the expression is made of comparisons, sums and products of integers only.
bool is_plain(const Expr& e);
/// A plain expression over named variables as C++, computed in 32 bits when `narrow`.
std::string plain_text(const Expr& e, const KernelNames& names, bool narrow);

}  // namespace graft::cuda
