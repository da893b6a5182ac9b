// SPDX-License-Identifier: Apache-2.0
// Which nodes of a model TensorRT's parser refuses: by what is documented of it, for which nothing of TensorRT's is
// needed, or as one that is installed says.
#pragma once

#include <functional>
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

/// Which nodes are refused, and who says so.
struct Refusals {
  std::string by;  ///< at the start of a sentence: "TensorRT 11, as its support is documented,"
  std::vector<Refusal> nodes;
};
/// As the parser of a TensorRT that is installed has it (`where`: empty or the folder of its libraries; its reasons),
/// or, where none is installed or `where` is `none`, as it is documented. `path`: the file of the model. Nodes that are
/// documented as refused are handed to the parser one by one, as files that `scratch` gives the place of.
Refusals refused_by_tensorrt(const ModelFile& model, const std::string& path, const std::string& where,
                             const std::function<std::string(const std::string& name)>& scratch);

/// The last opset whose operators are documented for TensorRT 11.
inline constexpr int64_t kLastTensorRTOpset = 25;

}  // namespace graft::plugin
