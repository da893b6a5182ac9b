// SPDX-License-Identifier: Apache-2.0
// The rules of lower_precision as default lists for models that stay ONNX models.
#pragma once

#include "amp/rules.h"

namespace graft::passes {

/// Every operator of ours by its rule of precision; any other is f32.
amp::DefaultLists default_lists();

}  // namespace graft::passes
