// SPDX-License-Identifier: Apache-2.0
// Complex numbers as pairs of reals.
#pragma once

#include <utility>

#include "base/tensor_data.h"

namespace graft::frontend {

/// The real and the imaginary parts of a constant of complex numbers, made when somebody asks for their elements.
std::pair<TensorData, TensorData> parts_of(const TensorData& complex);

}  // namespace graft::frontend
