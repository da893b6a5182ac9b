// SPDX-License-Identifier: Apache-2.0
#include "calibration_data.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "npy.h"

namespace graft {
namespace {

/// Samples of a batch where the network takes any number: all activations of a batch are in memory at once.
constexpr int64_t kSamplesOfBatch = 8;

bool ends_like_tensors(const std::string& path) { return path.ends_with(".npy") || path.ends_with(".npz"); }

std::vector<std::string> files_at(const std::string& path) {
  if (!std::filesystem::is_directory(path)) {
    GRAFT_USER_CHECK(std::filesystem::exists(path), kInvalidArgument, "there is no such file or folder", path);
    GRAFT_USER_CHECK(ends_like_tensors(path), kInvalidArgument,
                     "samples are an .npy or .npz file, or a folder of them: write them with numpy.save", path);
    return {path};
  }
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_regular_file() && ends_like_tensors(entry.path().string())) files.push_back(entry.path().string());
  }
  GRAFT_USER_CHECK(!files.empty(), kInvalidArgument,
                   "the folder has no .npy or .npz file: write samples with numpy.save", path);
  std::sort(files.begin(), files.end());
  return files;
}

/// The tensors of a file, one per input, with how many samples each batch has.
struct Source {
  std::string path;
  std::vector<PendingTensor> tensors;
  int64_t samples = 0, per_batch = 0;  ///< 0: the file is one batch
  int64_t batches() const { return per_batch == 0 ? 1 : (samples + per_batch - 1) / per_batch; }
};

/// A tensor as the input takes it: with a leading axis, of its type and sizes.
PendingTensor fitted(PendingTensor tensor, const Value& input, bool batched, const std::string& path) {
  GRAFT_USER_CHECK(tensor.type == input.type, kInvalidArgument,
                   fmt::format("it is of {}, and the input '{}' of {}: convert it with array.astype",
                               name_of(tensor.type), input.name, name_of(input.type)), path);
  if (!input.shape) return tensor;
  const Shape& wanted = *input.shape;
  if (tensor.shape.size() + 1 == wanted.size()) tensor.shape.insert(tensor.shape.begin(), 1);
  bool fits = tensor.shape.size() == wanted.size();
  for (size_t d = batched ? 1 : 0; fits && d < wanted.size(); ++d) {
    const auto fixed = wanted[d].as_constant();
    fits = !fixed || *fixed == tensor.shape[d];
  }
  GRAFT_USER_CHECK(fits, kInvalidArgument,
                   fmt::format("its shape is [{}], and the input '{}' takes {}, or the same without the first axis",
                               fmt::join(tensor.shape, ", "), input.name, to_string(wanted)), path);
  return tensor;
}

class Reader {
 public:
  Reader(const std::string& path, const Graph& graph) {
    for (const ValueId id : graph.inputs) inputs_.push_back(&graph.value(id));
    for (const std::string& file : files_at(path)) {
      sources_.push_back(open(file));
      for (int64_t n = 0; n < sources_.back().batches(); ++n) batches_.emplace_back(sources_.size() - 1, n);
    }
    inputs_.clear();
  }

  size_t count() const { return batches_.size(); }

  std::vector<TensorData> batch(size_t index) {
    const auto [number, part] = batches_[index];
    const Source& source = sources_[number];
    if (loaded_from_ != number || loaded_.empty()) {
      loaded_.clear();
      for (const PendingTensor& tensor : source.tensors) {
        loaded_.push_back(tensor.load().reshaped(tensor.shape));
      }
      loaded_from_ = number;
    }
    if (source.batches() == 1) return loaded_;
    std::vector<TensorData> rows;
    for (const TensorData& tensor : loaded_) rows.push_back(rows_of(tensor, source, part));
    return rows;
  }

 private:
  static TensorData rows_of(const TensorData& tensor, const Source& source, int64_t part) {
    std::vector<int64_t> shape = tensor.shape();
    const int64_t first = part * source.per_batch;
    const auto row_bytes = static_cast<size_t>(tensor.byte_count() / shape[0]);
    shape[0] = std::min(source.per_batch, source.samples - first);
    const auto bytes = tensor.bytes().subspan(static_cast<size_t>(first) * row_bytes,
                                              static_cast<size_t>(shape[0]) * row_bytes);
    return TensorData::from_bytes(tensor.type(), shape, bytes);
  }

  /// Whether the first axis of all inputs is the same: samples side by side.
  bool is_batched() const {
    const Value& first = *inputs_.front();
    return std::all_of(inputs_.begin(), inputs_.end(), [&](const Value* input) {
      return input->shape && !input->shape->empty() && bit_width(input->type) >= 8 && first.shape &&
             !first.shape->empty() && (*input->shape)[0] == (*first.shape)[0];
    });
  }

  Source open(const std::string& path) const {
    GRAFT_USER_CHECK(!inputs_.empty(), kInvalidArgument, "the network has no inputs to calibrate with", path);
    Source source{.path = path};
    const bool batched = is_batched();
    if (path.ends_with(".npy")) {
      GRAFT_USER_CHECK(inputs_.size() == 1, kInvalidArgument,
                       fmt::format("the network has {} inputs, and an .npy file is of one: write each sample or batch "
                                   "with numpy.savez, the names of inputs as keywords", inputs_.size()), path);
      source.tensors.push_back(fitted(open_npy(path, inputs_[0]->type), *inputs_[0], batched, path));
    } else {
      const NpzFile file(path);
      for (const Value* input : inputs_) {
        PendingTensor tensor = file.find(input->name, input->type);
        GRAFT_USER_CHECK(tensor, kInvalidArgument,
                         fmt::format("it has no entry '{}', which the network takes; it has {}", input->name,
                                     fmt::join(file.names(), ", ")), path);
        source.tensors.push_back(fitted(std::move(tensor), *input, batched, path));
      }
    }
    if (batched) divide(source);
    return source;
  }

  void divide(Source& source) const {
    source.samples = source.tensors[0].shape[0];
    for (size_t n = 1; n < source.tensors.size(); ++n) {
      GRAFT_USER_CHECK(source.tensors[n].shape[0] == source.samples, kInvalidArgument,
                       fmt::format("'{}' has {} samples and '{}' {}", inputs_[0]->name, source.samples,
                                   inputs_[n]->name, source.tensors[n].shape[0]), source.path);
    }
    GRAFT_USER_CHECK(source.samples > 0, kInvalidArgument, "it has no samples", source.path);
    const auto fixed = (*inputs_[0]->shape)[0].as_constant();
    GRAFT_USER_CHECK(!fixed || (*fixed > 0 && source.samples % *fixed == 0), kInvalidArgument,
                     fmt::format("it has {} samples, and the network takes {} at a time: give a multiple of these, or "
                                 "a model whose batch is dynamic", source.samples, fixed.value_or(0)), source.path);
    source.per_batch = fixed.value_or(kSamplesOfBatch);
  }

  std::vector<const Value*> inputs_;
  std::vector<Source> sources_;
  std::vector<std::pair<size_t, int64_t>> batches_;  ///< source, and which part of it
  std::vector<TensorData> loaded_;
  size_t loaded_from_ = 0;
};

}  // namespace

CalibrationData open_calibration(const std::string& path, const Graph& graph) {
  const auto reader = std::make_shared<Reader>(path, graph);
  return {reader->count(), [reader](size_t index) { return reader->batch(index); }, path};
}

}  // namespace graft
