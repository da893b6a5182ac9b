// SPDX-License-Identifier: Apache-2.0
// Parameters that a caller hands in where they lie.
#pragma once

#include <cstddef>
#include <string>

#include "base/tensor_data.h"
#include "graft/graft_c.h"

namespace graft::api_detail {

/// A row-major tensor in host memory, as it lies there; without data one of no elements. Throws invalid_argument with
/// `name` otherwise.
TensorData parameter_of(const graft_tensor& given, const std::string& name);

/// The tensor at `index` of an array of the caller's version: members that a later version adds follow the first, so
/// that struct_size is the distance. Throws invalid_argument naming `where`.
const graft_tensor& tensor_at(const graft_tensor* given, size_t index, const char* where);

}  // namespace graft::api_detail
