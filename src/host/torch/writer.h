// SPDX-License-Identifier: Apache-2.0
// Engines in place of segments of a TorchScript module.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/jit/api/module.h>

#include "engine.h"
#include "reader.h"

namespace graft::torchscript {

/// A segment and the engine that stands for it.
struct Part {
  const graft_host_segment* segment = nullptr;
  c10::intrusive_ptr<Engine> engine;
};

/// The engines of a graph, or of a block in it.
struct Parts {
  const HostGraph* host = nullptr;
  std::vector<Part> parts = {};
  std::vector<Parts> blocks = {};  ///< of nodes that stay
};

/// What an argument of the method has to be: a tensor of these sizes (-1: any), or its default.
struct Guard {
  size_t argument = 0;
  std::optional<c10::IValue> default_value = {};
  std::vector<int64_t> sizes;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
};

/// Gives the module an attribute for each engine, and its method calls of them, with what they stand for beside those
/// that have it run where they refuse their inputs. `parts` are of that method.
void write_engines(torch::jit::Module& module, const std::string& method, const Parts& parts,
                   const std::vector<Guard>& guards);

}  // namespace graft::torchscript
