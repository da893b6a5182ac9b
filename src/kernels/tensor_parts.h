// SPDX-License-Identifier: Apache-2.0
// Parts of tensors of any element type, strings and elements narrower than a byte included.
#pragma once

#include <cstdint>
#include <span>

#include "base/tensor_data.h"

namespace graft {

/// An axis in [-rank, rank) made non-negative; throws invalid_argument for others.
size_t counted_axis(int64_t axis, int rank);
/// Copies `count` elements, which lie one behind the other in both.
void copy_elements(const TensorData& from, int64_t first, TensorData& to, int64_t at, int64_t count);
/// The elements begin, begin + 1, ... begin + length - 1 along an axis.
TensorData part_along(const TensorData& whole, size_t axis, int64_t begin, int64_t length);
/// Tensors one behind the other along an axis of theirs; their other sizes agree, or invalid_argument is thrown.
TensorData joined_along(std::span<const TensorData> parts, size_t axis);

}  // namespace graft
