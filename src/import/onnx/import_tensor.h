// SPDX-License-Identifier: Apache-2.0
// TensorProto and SparseTensorProto as tensors.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/tensor_data.h"

namespace graft_onnx {
class TensorProto;
class SparseTensorProto;
}  // namespace graft_onnx

namespace graft {

/// Turns the tensors of one model into TensorData. Each proto is read once and gives up its bytes then; asking for it
/// again returns the same tensor. No size that the model states is believed before its data is seen.
class TensorImporter {
 public:
  /// `model_bytes` bounds what sparse tensors may grow to.
  TensorImporter(std::string directory, size_t model_bytes);
  /// `where` names the tensor in errors.
  TensorData import(graft_onnx::TensorProto& proto, const std::string& where);
  TensorData import_sparse(graft_onnx::SparseTensorProto& proto, const std::string& where);

 private:
  TensorData read(graft_onnx::TensorProto& proto, const std::string& where);
  TensorData read_external(const graft_onnx::TensorProto& proto, DType type, const std::vector<int64_t>& shape,
                           const std::string& where);
  TensorData read_sparse(graft_onnx::SparseTensorProto& proto, const std::string& where);
  std::shared_ptr<const MappedFile> map(const std::string& location, const std::string& where);

  std::string directory_;
  int64_t dense_budget_;
  std::map<const void*, TensorData> done_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace graft
