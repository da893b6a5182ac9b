// SPDX-License-Identifier: Apache-2.0
// Which nodes of a model TensorRT's parser refuses, by what is documented of it: nothing of TensorRT's is needed.
#pragma once

#include <string>
#include <vector>

#include "export/onnx/model_file.h"

namespace graft::plugin {

/// A node that is refused.
struct Refusal {
  std::string node, op;  ///< the operator with its domain, unless that is ONNX's own
  std::string reason;
  bool in_body = false;  ///< of an If or a Loop, whose nodes cannot be cut out
};

/// In the order of the file. Of a value whose type nobody knows, the type is not looked at.
std::vector<Refusal> refused_by_tensorrt(const ModelFile& model);

/// The last opset whose operators are documented for TensorRT 11.
inline constexpr int64_t kLastTensorRTOpset = 25;

}  // namespace graft::plugin
