// SPDX-License-Identifier: Apache-2.0
// The bytes of a model file as its messages.
#pragma once

#include <cstddef>
#include <span>

namespace graft_onnx {
class ModelProto;
}  // namespace graft_onnx

namespace graft {

/// Parses a model. Pages of a `mapped` file that were read are given back to the system. Throws invalid_model saying
/// what the bytes seem to be.
void read_model(graft_onnx::ModelProto& model, std::span<const std::byte> bytes, bool mapped);

}  // namespace graft
