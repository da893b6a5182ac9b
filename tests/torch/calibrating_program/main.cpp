// SPDX-License-Identifier: Apache-2.0
// `calibrating_program NET.pt PICTURES.pt RANGES.json INT8.pt`: what TRTorch's users wrote, with Graft's names:
// calibrates a scripted module by a loader of torch::data, saves it, and compiles it again from the file of ranges
// alone. PICTURES is a tensor.
#include <fstream>
#include <iostream>
#include <iterator>

#include <graft/torchscript.h>
#include <torch/data.h>
#include <torch/script.h>
#include <torch/serialize.h>

namespace {

namespace ptq = graft::ptq;
namespace ts = graft::torchscript;

/// Pictures without labels, which counts what is read at a time.
class Pictures : public torch::data::datasets::Dataset<Pictures> {
 public:
  explicit Pictures(torch::Tensor pictures) : pictures_(std::move(pictures)) {}
  torch::data::Example<> get(size_t index) override {
    return {pictures_[static_cast<int64_t>(index)], torch::zeros({1})};
  }
  torch::optional<size_t> size() const override { return pictures_.size(0); }

 private:
  torch::Tensor pictures_;
};

torch::Tensor load(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return torch::pickle_load(bytes).toTensor();
}

int compare(torch::jit::Module& first, torch::jit::Module& second, const torch::Tensor& pictures) {
  const torch::NoGradGuard no_gradients;
  const bool same = torch::equal(first.forward({pictures}).toTensor(), second.forward({pictures}).toTensor());
  if (!same) std::cout << "the module of the file of ranges computes something else\n";
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, const char* argv[]) {
  if (argc < 5) return 2;
  const torch::jit::Module module = torch::jit::load(argv[1]);
  const torch::Tensor pictures = load(argv[2]);

  auto dataset = Pictures(pictures).map(torch::data::transforms::Stack<>());
  auto dataloader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      std::move(dataset), torch::data::DataLoaderOptions().batch_size(32).workers(0));

  ts::Spec spec;
  spec.inputs = {{{"batch", 1, 8, 8}, torch::kFloat}};
  spec.dims = {{"batch", {1, 32, 1000}}};
  spec.options = {{"tune", "off"}};
  spec.precisions = {torch::kFloat, torch::kChar};
  spec.calibrator = ptq::make_int8_calibrator<ptq::MinMaxCalibration>(std::move(dataloader), argv[3], false);
  ts::Report report;
  torch::jit::Module fast = ts::compile(module, spec, &report);
  std::cout << report.text;
  fast.save(argv[4]);

  spec.calibrator = ptq::make_int8_cache_calibrator(argv[3]);
  torch::jit::Module again = ts::compile(module, spec);
  if (compare(fast, again, pictures) != 0) return 1;

  spec.calibrator = ptq::make_int8_cache_calibrator<ptq::EntropyCalibration2>(argv[3]);
  try {
    ts::compile(module, spec);
  } catch (const c10::ValueError& error) {
    std::cout << error.what_without_backtrace() << '\n';
    return 0;
  }
  return 1;
}
