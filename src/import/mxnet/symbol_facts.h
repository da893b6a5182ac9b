// SPDX-License-Identifier: Apache-2.0
// What a symbol says of its variables and results beside their names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "import/mxnet/symbol_file.h"

namespace graft::mxnet {

/// What `__dtype__` of a variable says; kUndefined where it says nothing. Throws invalid_model for a type that is none.
DType stated_type(const SymbolNode& variable);
/// What `__shape__` of a variable says, -1 for a size that it leaves open; nothing where it says nothing. Throws
/// invalid_model for what is no shape.
std::optional<std::vector<int64_t>> stated_shape(const SymbolNode& variable);

/// Whether a node's results have numbers in their names: `bn_output`, but `split_output0`.
bool numbers_results(const SymbolNode& node, int output);
/// The name that MXNet lists an output of a symbol by: `fc_output`, `split_output1`, and a variable's own.
std::string output_name(const SymbolNode& node, int output);

}  // namespace graft::mxnet
