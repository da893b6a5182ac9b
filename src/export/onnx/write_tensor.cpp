// SPDX-License-Identifier: Apache-2.0
#include "export/onnx/write_tensor.h"

#include <array>
#include <filesystem>

#include "import/onnx/onnx.pb.h"

namespace graft {
namespace {

constexpr size_t kAlignment = 4096;  // so that a mapped file gives tensors that need no copy

void add_entry(graft_onnx::TensorProto& proto, const char* key, std::string value) {
  auto* entry = proto.add_external_data();
  entry->set_key(key);
  entry->set_value(std::move(value));
}

}  // namespace

TensorWriter::TensorWriter(const std::string& path, int64_t least_bytes) : path_(path), least_bytes_(least_bytes) {}

size_t TensorWriter::append(const TensorData& tensor) {
  const auto bytes = tensor.bytes();
  const auto [known, added] = offsets_.emplace(std::pair(bytes.data(), bytes.size()), 0);
  if (!added) return known->second;
  static constexpr std::array<std::byte, kAlignment> kZeros{};
  if (!file_) file_ = std::make_unique<OutputFile>(path_);
  const size_t padding = (kAlignment - file_->size() % kAlignment) % kAlignment;
  file_->write(std::span(kZeros).first(padding));
  known->second = file_->size();
  file_->write(bytes);
  kept_.push_back(tensor);
  return known->second;
}

void TensorWriter::write(const TensorData& tensor, TensorPlace place, graft_onnx::TensorProto& proto) {
  for (const int64_t extent : tensor.shape()) proto.add_dims(extent);
  proto.set_data_type(onnx_code(tensor.type()));
  if (tensor.type() == DType::kString) {
    for (const std::string& text : tensor.strings()) proto.add_string_data(text);
    return;
  }
  const bool outside = place == TensorPlace::kAnywhere && !path_.empty() && tensor.byte_count() > 0 &&
                       tensor.byte_count() >= least_bytes_;
  if (!outside) {
    const auto bytes = tensor.bytes();
    proto.set_raw_data(bytes.data(), bytes.size());
    return;
  }
  const size_t offset = append(tensor);
  proto.set_data_location(graft_onnx::TensorProto::EXTERNAL);
  add_entry(proto, "location", std::filesystem::path(path_).filename());
  add_entry(proto, "offset", std::to_string(offset));
  add_entry(proto, "length", std::to_string(tensor.byte_count()));
}

void TensorWriter::commit() {
  if (file_) file_->commit();
}

}  // namespace graft
