// SPDX-License-Identifier: Apache-2.0
// What each row of intrinsics.inc computes: the reference that generated code is compared with.
#pragma once

#include <cstdint>
#include <span>

#include "expr/expr.h"

namespace graft {

/// A row of values of one type: `real` for floats, `integer` for the rest (u64 keeps its bits; narrower types are
/// sign- or zero-extended; bool is 0 or 1). The other pointer is null.
struct Column {
  double* real = nullptr;
  int64_t* integer = nullptr;
};

/// One intrinsic over columns. Floats are computed in double whatever their type; only a cast rounds.
struct ColumnCall {
  DType type;    ///< of the operands (of the second one for select)
  DType result;  ///< of `out`
  std::span<const Column> args;
  Column out;  ///< may be one of args
  int count;
};

/// Computes `out`. check_index gives 0 for an index out of range; who calls must record it.
void evaluate_columns(Intrinsic intrinsic, const ColumnCall& call);

/// One value of any type.
struct Scalar {
  double real = 0;
  int64_t integer = 0;
};
/// One intrinsic on one element; `type` and `result` as in ColumnCall.
Scalar evaluate_scalar(Intrinsic intrinsic, DType type, DType result, std::span<const Scalar> args);

}  // namespace graft
