// SPDX-License-Identifier: Apache-2.0
// Constants of f32 in f16 or bf16: whether they fit, and what they become.
#pragma once

#include <string>

#include "base/tensor_data.h"

namespace graft::amp {

/// Why a constant should not be converted: an element would overflow, or rounding and underflow together change it by
/// more than rounding alone can. An empty text when it fits.
std::string conversion_fault(const TensorData& data, DType low);
/// The elements rounded to `low`.
TensorData converted(const TensorData& data, DType low);

}  // namespace graft::amp
