// SPDX-License-Identifier: Apache-2.0
// Which nodes of a model become plugins: what a caller names, as closed parts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "export/onnx/model_file.h"

namespace graft::plugin {

/// What a caller names; one of these is given.
struct Selection {
  std::vector<std::vector<std::string>> nodes;  ///< each list becomes one part
  std::vector<std::string> types;               ///< each node of these operators becomes a part
  std::string region;  ///< `OUT,...[..IN,...]`: what computes these tensors from those, one part in their order
  bool unsupported = false;  ///< each node that TensorRT refuses (tensorrt_support.h)
};

/// The parts, in the order in which they are named or in the file, each with the Constant nodes that it reads. What is
/// handed in are the tensors of others and, of its weights, the floats of many elements; other weights, which may
/// decide how it is computed, stay inside. Throws invalid_argument naming what does not exist, with the nearest names;
/// a node that is in two parts; a region that also depends on other inputs of the model; and a part whose results come
/// back to it through nodes that are not chosen.
std::vector<ModelCut> select_parts(const ModelFile& model, const Selection& selection);

/// A part of these nodes, which are of the model's own graph, each; those that hand each other sequences, which are no
/// tensors, are one. A part that cannot be closed is left out and `left` told why.
std::vector<ModelCut> parts_of_refused(
    const ModelFile& model, const std::vector<std::string>& nodes,
    const std::function<void(const std::string& node, const std::string& why)>& left);

}  // namespace graft::plugin
