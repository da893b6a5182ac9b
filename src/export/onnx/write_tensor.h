// SPDX-License-Identifier: Apache-2.0
// Tensors as TensorProto, their bytes in the message or in a file beside the model.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/tensor_data.h"

namespace graft_onnx {
class TensorProto;
}  // namespace graft_onnx

namespace graft {

/// Whether a tensor may lie in the file beside the model. Attributes never do.
enum class TensorPlace : uint8_t { kInside, kAnywhere };

/// Writes the tensors of one model. Bytes that several tensors share are in the file beside it once.
class TensorWriter {
 public:
  /// All tensors go into the model.
  TensorWriter() = default;
  /// Those of at least `least_bytes` go into `path`, whose name the model then says.
  TensorWriter(const std::string& path, int64_t least_bytes);

  void write(const TensorData& tensor, TensorPlace place, graft_onnx::TensorProto& proto);
  /// Gives the file beside the model its name; there is none when no tensor went there.
  void commit();

 private:
  size_t append(const TensorData& tensor);

  std::string path_;
  int64_t least_bytes_ = 0;
  std::unique_ptr<OutputFile> file_;
  std::map<std::pair<const std::byte*, size_t>, size_t> offsets_;  ///< by bytes that are in the file already
  std::vector<TensorData> kept_;                                   ///< so that no other bytes get their address
};

}  // namespace graft
