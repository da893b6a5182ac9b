// SPDX-License-Identifier: Apache-2.0
// What the tensors of a network were rounded to on the way: an f32 result of a model of mixed precision was f16 inside.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "driver/compile_options.h"
#include "graph/graph.h"

namespace graft {

/// The type that rounds more: its default tolerance is the larger one. Nothing (kUndefined) rounds least.
DType coarser(DType a, DType b);

/// The type whose rounding a precision has: tf32 has as many digits as f16.
DType rounding_of(Precision precision);

/// By the name of a tensor: the coarsest floating type narrower than f32 that it is, or is computed from, constants and
/// bodies included; kUndefined where there is none.
using Roundings = std::map<std::string, DType, std::less<>>;
/// `network`: what the whole network rounds to, whatever its types are.
Roundings roundings_of(const Graph& graph, DType network);

}  // namespace graft
