// SPDX-License-Identifier: Apache-2.0
// `program NET.pt SAVED.pt`: compiles a scripted module in C++, saves it, loads it, and compares what they give.
#include <iostream>

#include <graft/torchscript.h>
#include <torch/script.h>

namespace {

/// Whether two modules agree on batches of these sizes.
bool agree(torch::jit::Module& first, torch::jit::Module& second) {
  for (const int64_t batch : {1, 4, 2, 8}) {
    const at::Tensor x = torch::rand({batch, 3, 8, 8});
    if (!at::allclose(first.forward({x}).toTensor(), second.forward({x}).toTensor(), 1e-5, 1e-5)) return false;
  }
  return true;
}

}  // namespace

int main(int, char** arguments) {
  const torch::NoGradGuard no_gradients;
  torch::jit::Module module = torch::jit::load(arguments[1]);
  graft::torchscript::Spec spec;
  spec.inputs = {{{"batch", 3, 8, 8}, torch::kFloat}};
  spec.dims = {{"batch", {1, 4, 8}}};
  spec.options = {{"tune", "off"}};
  graft::torchscript::Report report;
  torch::jit::Module grafted = graft::torchscript::compile(module, spec, &report);
  grafted.save(arguments[2]);
  torch::jit::Module loaded = torch::jit::load(arguments[2]);
  std::cout << report.engines << " engines, " << report.fallbacks << " fallbacks\n" << report.text;
  if (!agree(module, grafted) || !agree(module, loaded)) return std::cout << "they differ\n", 1;
  try {
    spec.dims.clear();
    graft::torchscript::compile(module, spec);
  } catch (const c10::ValueError& error) {
    std::cout << error.what_without_backtrace() << '\n';
    return 0;
  }
  return 1;
}
