// SPDX-License-Identifier: Apache-2.0
// Casts in a TorchScript graph, so that it computes partly in f16 or bf16.
#pragma once

#include <memory>
#include <vector>

#include "reader.h"

namespace graft::torchscript {

/// Puts aten::to where the readings say, once for a value and type, and converts parameters. `host` is of the graph.
/// Returns how many casts there are. What types and sizes the graph states of its values is given up.
size_t write_casts(const std::shared_ptr<torch::jit::Graph>& graph, const HostGraph& host,
                   const std::vector<graft_host_reading>& readings);

}  // namespace graft::torchscript
