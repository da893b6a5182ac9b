// SPDX-License-Identifier: Apache-2.0
// Calibrators of int8 for TorchScript modules, with the names of TRTorch: samples of a loader of torch::data, or ranges
// that a file has.
//
//   auto loader = torch::data::make_data_loader(std::move(dataset), torch::data::DataLoaderOptions().batch_size(32));
//   graft::torchscript::Spec spec;
//   spec.precisions = {torch::kFloat, torch::kChar};
//   spec.calibrator = graft::ptq::make_int8_calibrator(std::move(loader), "ranges.json", true);
//   torch::jit::Module fast = graft::torchscript::compile(module, spec);
//
// Batches are asked for one after another, of the size that the loader gives them, and none is kept but the first ones,
// of at most 64 samples, with which the error is measured.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/types.h>

namespace graft {
namespace ptq {

// How ranges follow from what was counted: methods of docs/PRECISION.md, by TensorRT's names.
struct MseCalibration { static constexpr const char* kMethod = "mse"; };
struct EntropyCalibration { static constexpr const char* kMethod = "entropy"; };
struct EntropyCalibration2 { static constexpr const char* kMethod = "entropy"; };
struct LegacyCalibration { static constexpr const char* kMethod = "percentile"; };
struct MinMaxCalibration { static constexpr const char* kMethod = "minmax"; };

/// Samples, a calibration file and a method. Used by one compilation at a time.
class Int8Calibrator {
 public:
  Int8Calibrator(std::string method, std::string cache_file, bool use_cache)
      : method_(std::move(method)), cache_file_(std::move(cache_file)), use_cache_(use_cache) {}
  virtual ~Int8Calibrator() = default;
  Int8Calibrator(const Int8Calibrator&) = delete;
  Int8Calibrator& operator=(const Int8Calibrator&) = delete;

  /// Hands over each batch: the inputs of the method, in order. What `use` throws ends it.
  virtual void for_each_batch(const std::function<void(std::vector<torch::Tensor>)>& use) = 0;
  /// False: the ranges are those of the file.
  virtual bool has_data() const { return true; }
  /// One of docs/PRECISION.md; empty: that of the file.
  const std::string& method() const { return method_; }
  /// The calibration file; empty: none.
  const std::string& cache_file() const { return cache_file_; }
  /// Whether a file that is there is read, instead of made anew.
  bool use_cache() const { return use_cache_; }

 private:
  std::string method_, cache_file_;
  bool use_cache_;
};

namespace detail {

inline std::vector<torch::Tensor> tensors_of(const torch::Tensor& tensor) { return {tensor}; }
inline std::vector<torch::Tensor> tensors_of(const std::vector<torch::Tensor>& tensors) { return tensors; }
/// An example or a batch of them that was stacked: its target is left out.
template <class Example>
auto tensors_of(const Example& example) -> decltype(tensors_of(example.data)) {
  return tensors_of(example.data);
}
/// Examples that were not stacked.
template <class Example>
auto tensors_of(const std::vector<Example>& examples)
    -> std::enable_if_t<!std::is_same_v<Example, torch::Tensor>, std::vector<torch::Tensor>> {
  std::vector<std::vector<torch::Tensor>> by_input;
  for (const Example& example : examples) {
    const std::vector<torch::Tensor> tensors = tensors_of(example);
    by_input.resize(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) by_input[i].push_back(tensors[i]);
  }
  std::vector<torch::Tensor> stacked;
  for (const auto& each : by_input) stacked.push_back(torch::stack(each));
  return stacked;
}

/// `Loader`: a pointer to what `for (auto& batch : *loader)` takes, as often as it is asked.
template <class Loader>
class DataLoaderCalibrator : public Int8Calibrator {
 public:
  DataLoaderCalibrator(Loader loader, std::string method, std::string cache_file, bool use_cache)
      : Int8Calibrator(std::move(method), std::move(cache_file), use_cache), loader_(std::move(loader)) {}

  void for_each_batch(const std::function<void(std::vector<torch::Tensor>)>& use) override {
    for (auto& batch : *loader_) use(tensors_of(batch));
  }

 private:
  Loader loader_;
};

class CacheCalibrator : public Int8Calibrator {
 public:
  CacheCalibrator(std::string method, std::string cache_file)
      : Int8Calibrator(std::move(method), std::move(cache_file), true) {}
  void for_each_batch(const std::function<void(std::vector<torch::Tensor>)>&) override {}
  bool has_data() const override { return false; }
};

}  // namespace detail

/// Samples of a loader (a std::unique_ptr, as torch::data::make_data_loader gives it, or a std::shared_ptr).
/// cache_file: a calibration file; with use_cache it is read instead of running the samples if it exists, else written.
template <class Algorithm = EntropyCalibration2, class Loader>
std::shared_ptr<Int8Calibrator> make_int8_calibrator(Loader loader, std::string cache_file = "",
                                                     bool use_cache = false) {
  return std::make_shared<detail::DataLoaderCalibrator<Loader>>(std::move(loader), Algorithm::kMethod,
                                                                std::move(cache_file), use_cache);
}

/// The ranges of a file: one of Graft's own, by whatever method, or a calibration cache of TensorRT.
inline std::shared_ptr<Int8Calibrator> make_int8_cache_calibrator(std::string cache_file) {
  return std::make_shared<detail::CacheCalibrator>("", std::move(cache_file));
}
/// The same, of one method alone.
template <class Algorithm>
std::shared_ptr<Int8Calibrator> make_int8_cache_calibrator(std::string cache_file) {
  return std::make_shared<detail::CacheCalibrator>(Algorithm::kMethod, std::move(cache_file));
}

}  // namespace ptq
}  // namespace graft
