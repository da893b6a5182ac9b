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

class Reader {
 public:
  Reader(const std::string& path, const Graph& graph) : form_(graph) {
    for (const ValueId id : graph.inputs) inputs_.push_back(&graph.value(id));
    for (const std::string& file : files_at(path)) files_.push_back(open(file));
    inputs_.clear();
  }

  size_t count() const { return files_.size(); }

  std::vector<TensorData> batch(size_t index) const {
    std::vector<TensorData> tensors;
    for (const PendingTensor& tensor : files_[index]) tensors.push_back(tensor.load().reshaped(tensor.shape));
    return tensors;
  }

 private:
  /// The tensors of a file, one per input, of the shapes with which the network takes them.
  std::vector<PendingTensor> open(const std::string& path) const {
    std::vector<PendingTensor> tensors;
    if (path.ends_with(".npy")) {
      GRAFT_USER_CHECK(inputs_.size() == 1, kInvalidArgument,
                       fmt::format("the network has {} inputs, and an .npy file is of one: write each sample or batch "
                                   "with numpy.savez, the names of inputs as keywords", inputs_.size()), path);
      tensors.push_back(open_npy(path, inputs_[0]->type));
    } else {
      const NpzFile file(path);
      for (const Value* input : inputs_) {
        PendingTensor tensor = file.find(input->name, input->type);
        GRAFT_USER_CHECK(tensor, kInvalidArgument,
                         fmt::format("it has no entry '{}', which the network takes; it has {}", input->name,
                                     fmt::join(file.names(), ", ")), path);
        tensors.push_back(std::move(tensor));
      }
    }
    std::vector<std::vector<int64_t>> shapes;
    for (size_t n = 0; n < tensors.size(); ++n) {
      tensors[n].shape = form_.fitted(n, tensors[n].type, tensors[n].shape, path);
      shapes.push_back(tensors[n].shape);
    }
    GRAFT_USER_CHECK(!form_.is_batched() || form_.samples(shapes, path) > 0, kInvalidArgument, "it has no samples",
                     path);
    return tensors;
  }

  const SampleForm form_;
  std::vector<const Value*> inputs_;
  std::vector<std::vector<PendingTensor>> files_;
};

}  // namespace

CalibrationData open_calibration(const std::string& path, const Graph& graph) {
  const auto reader = std::make_shared<Reader>(path, graph);
  return {[reader](size_t index) { return reader->batch(index); }, reader->count(), path};
}

}  // namespace graft
