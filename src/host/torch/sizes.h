// SPDX-License-Identifier: Apache-2.0
// Element types and sizes of a graph's values, from those of its inputs: what torch's own operators say on tensors
// without data (device `meta`), at the smallest, the usual and the largest sizes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/csrc/jit/ir/ir.h>

#include "graft/torchscript.h"

namespace graft::torchscript {

/// What is known of a tensor. An axis of changing size is a symbol; `sizes` then holds -1.
struct KnownTensor {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> sizes;
  std::vector<std::string> symbols;  ///< empty for fixed axes
};

/// What is known of all values, and the ranges of the symbols.
struct KnownSizes {
  std::unordered_map<const torch::jit::Value*, KnownTensor> tensors;
  std::map<std::string, Range> ranges;
};

/// The inputs of the graph behind its first, the module, are those of `spec`. Values that come from operators without
/// a kernel for `meta`, or from control flow, stay unknown. `spec` is resolved (inputs.h).
KnownSizes known_sizes(const torch::jit::Graph& graph, const Spec& spec);

/// Results of nodes that ask for sizes, ranks or types, where the spec fixes them: they are the same for all inputs
/// that have the stated sizes.
std::vector<std::pair<const torch::jit::Value*, c10::IValue>> fixed_sizes(const torch::jit::Graph& graph,
                                                                          const Spec& spec);

}  // namespace graft::torchscript
