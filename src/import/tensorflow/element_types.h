// SPDX-License-Identifier: Apache-2.0
// TensorFlow's DataType.
#pragma once

#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace graft::tensorflow {

/// Ours for a number of TensorFlow's; nothing for resources, variants, quantized types and what Graft does not have.
std::optional<DType> element_type(int number);
/// The same by the name that operators' definitions use: `int32`.
std::optional<DType> element_type_named(std::string_view name);
/// TensorFlow's number for ours; 0 where it has none.
int number_of(DType type);

}  // namespace graft::tensorflow
