// SPDX-License-Identifier: Apache-2.0
// The order of a model's nodes: ONNX asks for a topological one, and some tools write another.
#pragma once

#include <cstddef>

namespace graft_onnx {
class ModelProto;
}  // namespace graft_onnx

namespace graft {

/// Puts the nodes of all graphs and functions behind those whose results they read; nodes that are in order stay as
/// they are. Returns how many graphs and functions were not in order. Throws invalid_model naming the nodes of a cycle.
size_t sort_nodes(graft_onnx::ModelProto& model);

}  // namespace graft
