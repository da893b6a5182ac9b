// SPDX-License-Identifier: Apache-2.0
// Tensors that count: what several families of rows build masks and indices with.
#pragma once

#include <cstdint>
#include <vector>

#include "frontend/conversion.h"

namespace graft::mxnet {

/// One i64 without axes.
ValueId integer_scalar(frontend::Conversion& c, int64_t value);
/// 0, 1, ... up to a count, which is one i64 without axes.
ValueId count_up_to(frontend::Conversion& c, ValueId count);
/// 0, 1, ... along an axis of the data, all other axes of size 1.
ValueId positions(frontend::Conversion& c, ValueId data, int64_t axis);
/// Size 1 for each axis of the data, but -1, what is left, for one.
std::vector<int64_t> shape_along(frontend::Conversion& c, ValueId data, int64_t axis);

}  // namespace graft::mxnet
