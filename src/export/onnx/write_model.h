// SPDX-License-Identifier: Apache-2.0
// Messages of a model as the bytes of a file.
#pragma once

#include <functional>
#include <string>

#include "export/onnx/export.h"
#include "export/onnx/write_tensor.h"

namespace graft_onnx {
class ModelProto;
}  // namespace graft_onnx

namespace graft {

/// Makes the messages; asked once, with where its tensors go.
using MakeModel = std::function<void(TensorWriter& tensors, graft_onnx::ModelProto& model)>;

/// Writes a model and the file beside it, which is there first. `weight_bytes`: of all initializers together.
void write_model(const MakeModel& make, int64_t weight_bytes, const std::string& path, const OnnxWeights& weights);
/// The bytes of a model that has its weights inside.
std::string model_bytes(const MakeModel& make);

/// The bytes that a graph's constants take, those of bodies included.
int64_t constant_bytes(const Graph& graph);

}  // namespace graft
