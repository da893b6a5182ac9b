// SPDX-License-Identifier: Apache-2.0
// Element types of both sides.
#pragma once

#include <cstdint>

#include "tensorflow/core/framework/types.h"

namespace graft::tensorflow_host {

/// Graft's number for a type of TensorFlow's; 0: it has none.
int32_t element_type(tensorflow::DataType type);
/// TensorFlow's; DT_INVALID: it has none.
tensorflow::DataType data_type(int32_t element_type);

}  // namespace graft::tensorflow_host
