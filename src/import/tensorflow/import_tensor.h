// SPDX-License-Identifier: Apache-2.0
// Constants of a GraphDef as tensors.
#pragma once

#include "base/size.h"
#include "base/tensor_data.h"
#include "import/tensorflow/graph_file.h"

namespace graft_tensorflow {
class TensorShapeProto;
}

namespace graft::tensorflow {

/// The memory that constants of one file may take beyond the bytes that it holds of them: a Const may state a tensor of
/// any size and one element to fill it with.
class ConstantBudget {
 public:
  explicit ConstantBudget(size_t file_bytes);
  /// Throws invalid_model naming `where` when less is left.
  void take(int64_t bytes, const std::string& where);

 private:
  int64_t left_;
};

/// The tensor of a Const. Elements that the file holds as bytes stay there until somebody asks for them; nothing for
/// types that Graft does not have. Throws invalid_model naming the node for a tensor that contradicts itself.
TensorData import_constant(const GraphFile& file, const FileNode& node, ConstantBudget& budget);

/// Booleans that are 0 or 1, whatever bytes stand for them.
TensorData with_clean_bools(TensorData tensor);

/// A shape with symbols named after `name` for sizes that it leaves open; nothing for an unknown rank.
std::optional<Shape> import_shape(const graft_tensorflow::TensorShapeProto& shape, std::string_view name);

}  // namespace graft::tensorflow
