// SPDX-License-Identifier: Apache-2.0
// Tensors beside their references, as a table and as JSON: what `run --reference` and `compare` print.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/compare.h"

namespace graft {

/// One tensor of a report.
struct ComparedTensor {
  std::string name;
  std::string node;  ///< what computes it; empty where nobody asks
  std::string type;  ///< `f32[2, 3]`, or `f16[2, 3] / f32[2, 3]`
  Judgement judgement;
};

/// Whether all agree.
bool all_agree(const std::vector<ComparedTensor>& rows);
/// Prints a line for each; `heading` says which tensors these are. The row `marked` (-1: none) has an arrow before it.
void print_comparison(const std::vector<ComparedTensor>& rows, const std::string& heading, int marked = -1);
nlohmann::json comparison_json(const std::vector<ComparedTensor>& rows);

}  // namespace graft
