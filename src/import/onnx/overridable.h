// SPDX-License-Identifier: Apache-2.0
// Inputs of an ONNX model whose initializers callers replace.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "import/onnx/onnx.pb.h"

namespace graft {

/// The names, as a set, of inputs that stay inputs although the file has an initializer for them. Throws
/// invalid_argument for a name that is none such, with those that there are. Valid as long as `names`.
std::set<std::string_view> overridden_of(const graft_onnx::GraphProto& proto, const std::vector<std::string>& names);

}  // namespace graft
