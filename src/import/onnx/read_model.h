// SPDX-License-Identifier: Apache-2.0
// The bytes of a model file as its messages.
#pragma once

#include <cstddef>
#include <span>

#include "base/file.h"

namespace graft_onnx {
class ModelProto;
}  // namespace graft_onnx

namespace graft {

/// Parses a model; nodes that are not in topological order are sorted, with a warning. Pages of a `mapped` file that
/// were read are given back to the system. Throws invalid_model saying what the bytes seem to be.
void read_model(graft_onnx::ModelProto& model, std::span<const std::byte> bytes, bool mapped);
/// Parses a file for its functions. Throws invalid_argument naming the file when it is no model or has none.
void read_functions(graft_onnx::ModelProto& library, const MappedFile& file);

}  // namespace graft
