// SPDX-License-Identifier: Apache-2.0
// Random inputs for trials and measurements.
#pragma once

#include <cstdint>
#include <vector>

#include "base/tensor_data.h"

namespace graft {

/// A tensor of seeded values, the same on every machine: normal numbers for floats (of a type of powers of two, powers
/// around 1) and for both parts of complex ones; 0 or 1 for bool and for integers of 32 and 64 bits, so that they are
/// valid as indices; every value for narrower integers. Throws cancelled when a stop was asked for meanwhile, and
/// unsupported for strings.
TensorData random_tensor(DType type, const std::vector<int64_t>& shape, uint64_t seed);

}  // namespace graft
