// SPDX-License-Identifier: Apache-2.0
// Element types of torch as those of graft_c.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <c10/core/ScalarType.h>

namespace graft::torchscript {

/// 0 for types that Graft does not have (quantized ones).
int32_t element_type(c10::ScalarType type);
/// Nothing for types that torch does not have (strings).
std::optional<c10::ScalarType> scalar_type(int32_t element_type);
/// As Graft and Python spell it: `float32`.
std::optional<c10::ScalarType> scalar_type_named(std::string_view name);

}  // namespace graft::torchscript
