// SPDX-License-Identifier: Apache-2.0
// Engines in place of segments of a TorchScript module.
#pragma once

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

/// Gives the module an attribute for each engine, and its `forward` calls of them. `host` is of that `forward`.
void write_engines(torch::jit::Module& module, const HostGraph& host, const std::vector<Part>& parts);

}  // namespace graft::torchscript
