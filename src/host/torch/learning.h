// SPDX-License-Identifier: Apache-2.0
// Modules whose engines run in fp32 and learn to be of int8, and what they become.
#pragma once

#include <string>
#include <vector>

#include <torch/csrc/jit/api/module.h>

#include "graft/torchscript.h"

namespace graft::torchscript {

/// A module that learns while it runs, and the names of all of its engines in the order of its segments, as
/// graft_host_publish_engine gives them.
struct LearningModule {
  torch::jit::Module module;
  std::vector<std::string> engines;
  bool learns = false;  ///< false: the ranges of all are known already
};
/// Inputs that its engines refuse are errors.
LearningModule learning_module(const torch::jit::Module& module, const Spec& spec);

/// compile() with engines that are there already, by their names in the same order: those that learned become int8.
torch::jit::Module compile_with(const torch::jit::Module& module, const Spec& spec,
                                const std::vector<std::string>& engines, Report* report);

/// Lets go of engines by their names.
void withdraw(const std::vector<std::string>& engines);

}  // namespace graft::torchscript
