// SPDX-License-Identifier: Apache-2.0
#include "export/onnx/write_model.h"

#include <climits>

#include "base/error.h"
#include "base/file.h"
#include "import/onnx/onnx.pb.h"

namespace graft {
namespace {

constexpr int64_t kMostInside = int64_t{1} << 30;
constexpr int64_t kLeastOutside = 1024;

std::string serialized(const graft_onnx::ModelProto& model) {
  GRAFT_USER_CHECK(model.ByteSizeLong() <= INT_MAX, kUnsupported,
                   "the model is larger than the 2 GiB that its format allows; store the weights in a file beside it",
                   "model");
  std::string bytes;
  GRAFT_CHECK(model.SerializeToString(&bytes), "the model cannot be serialized");
  return bytes;
}

}  // namespace

void write_model(const MakeModel& make, int64_t weight_bytes, const std::string& path, const OnnxWeights& weights) {
  std::optional<int64_t> least = weights.external_from;
  if (!least && weight_bytes > kMostInside) least = kLeastOutside;
  TensorWriter tensors = least ? TensorWriter(path + ".data", *least) : TensorWriter();
  graft_onnx::ModelProto model;
  make(tensors, model);
  const std::string bytes = serialized(model);
  tensors.commit();
  write_file(path, bytes);
}

std::string model_bytes(const MakeModel& make) {
  TensorWriter tensors;
  graft_onnx::ModelProto model;
  make(tensors, model);
  return serialized(model);
}

int64_t constant_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (const Value& value : graph.values) bytes += value.constant ? value.constant->byte_count() : 0;
  for (const Node& node : graph.nodes) {
    for (const auto& [name, attribute] : node.attributes) {
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute)) bytes += constant_bytes(**body);
    }
  }
  return bytes;
}

}  // namespace graft
