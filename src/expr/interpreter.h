// SPDX-License-Identifier: Apache-2.0
// Runs regions on the host: the reference for every kernel, and what folds constants.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/tensor_data.h"
#include "expr/region.h"

namespace graft {

/// Gives each symbol that is alone on an axis of `declared` the extent found there, and checks all axes: throws
/// invalid_argument naming the tensor, the axis and both extents when they contradict each other or `bindings`.
void bind_shape(const TensorDecl& declared, DType type, std::span<const int64_t> shape, Bindings& bindings);

/// The region's outputs for `inputs` (one per region input, in order). Floats are computed and accumulated in double
/// and rounded where a form stores; integers wrap to their type. Symbols are taken from `bindings` and from the
/// shapes of the inputs; `bindings` gains those and the counts of Compact forms. Throws invalid_argument for inputs
/// that do not fit and for indices out of range.
std::vector<TensorData> interpret(const Region& region, std::span<const TensorData> inputs, Bindings& bindings);

/// The elements of a small integer tensor, row-major, when they are known as sizes.
using SymbolicContent = std::optional<std::vector<Size>>;

/// The outputs of a region over small (at most 1024 elements) integer and bool tensors whose elements are sizes, so
/// that shapes computed by operators stay shapes. Nothing when an output depends on something unknown or on a choice
/// that the sizes do not decide. Symbols are taken to be at least 0, and integer types not to overflow.
std::optional<std::vector<std::vector<Size>>> interpret_symbolically(const Region& region,
                                                                     std::span<const SymbolicContent> input_contents);

}  // namespace graft
