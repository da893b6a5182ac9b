// SPDX-License-Identifier: Apache-2.0
// Lowering: a TorchScript graph in the form that partitioning reads, by a list of passes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include "graft/torchscript.h"

namespace graft::torchscript {

/// What lowering relied on.
struct Lowered {
  bool fixed_sizes = false;  ///< sizes that the spec fixes became constants: other inputs have to be refused
};

/// Runs the passes on a graph of the frozen module. `spec` is resolved. observe(name) is called after each.
Lowered lower(std::shared_ptr<torch::jit::Graph>& graph, const torch::jit::Module& module, const Spec& spec,
              const std::function<void(const std::string& pass)>& observe = {});

}  // namespace graft::torchscript
