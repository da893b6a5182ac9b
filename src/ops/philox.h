// SPDX-License-Identifier: Apache-2.0
// Random numbers as integer arithmetic: the same draws on every device, in any order, for a key and a position.
#pragma once

#include <array>

#include "graph/op_def.h"
#include "graph/random_state.h"

namespace graft {

/// 64 bits that choose a stream.
struct RandomKey {
  Expr low, high;  ///< u32
};

/// 128 random bits of one position.
using RandomWords = std::array<Expr, 4>;  ///< u32

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011): words of the stream at an i64 position.
RandomWords philox(const RandomKey& key, const Expr& position);

/// The key of a node: that of its attribute `seed`, or what input `state` holds, which differs from run to run.
RandomKey random_key(Definition& d, int state);

/// In [0, 1) in the type that arithmetic on `type` uses, with as many bits as `type` holds: rounding makes no 1.
Expr random_unit(DType type, const RandomWords& words);
/// Standard normal (Box and Muller), in the same type.
Expr random_normal(DType type, const RandomWords& words);

}  // namespace graft
