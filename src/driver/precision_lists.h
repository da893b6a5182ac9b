// SPDX-License-Identifier: Apache-2.0
// The default lists of mixed precision for a front end: which of its operators compute in what type, found out by
// converting each and reading the rules of the graph operators that it becomes.
#pragma once

#include <string>

#include "amp/rules.h"
#include "base/dtype.h"

namespace graft {

/// Of `onnx`, `mxnet`, `tensorflow` or `aten`, for f16 or bf16. MXNet's are MXNet's own; of the others every operator
/// that is converted has a rule, and one that is not is f32. Throws invalid_argument naming another front end.
amp::DefaultLists default_lists(const std::string& front_end, DType low);

}  // namespace graft
