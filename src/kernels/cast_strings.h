// SPDX-License-Identifier: Apache-2.0
// Numbers as strings and strings as numbers, as ONNX spells them.
#pragma once

#include "base/tensor_data.h"

namespace graft {

/// What each element is in the other type, of which one is strings, or both are the same. Throws invalid_argument for a
/// string that is no number of the type.
TensorData cast_strings(const TensorData& from, DType type);

}  // namespace graft
