// SPDX-License-Identifier: Apache-2.0
// Symbols of MXNet as short texts, for tests:
//
//   variable %data
//   %fc1 = FullyConnected(%data, %w, %bn:1) {num_hidden = "3"}
//   head %fc1
#pragma once

#include <string>
#include <vector>

#include "import/mxnet/symbol_file.h"

namespace graft::test {

/// A symbol from its text; throws std::runtime_error naming the line.
mxnet::Symbol symbol_from(const std::string& text);

/// The symbol's text; `types` are written behind the results, by the node's index and output 0, where they are given.
std::string text_of(const mxnet::Symbol& symbol, const std::vector<std::string>& types = {});

}  // namespace graft::test
