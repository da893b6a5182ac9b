// SPDX-License-Identifier: Apache-2.0
// Engines inside TorchScript modules: the parts of a module that Graft can run become engines, the module stays one
// that is called, saved and loaded as before.
//
//   #include <graft/torchscript.h>                       // links libgraft_torch.so, torch_cpu and c10
//   torch::jit::Module module = torch::jit::load("net.pt");
//   graft::torchscript::Spec spec;
//   spec.inputs = {{{"batch", 3, 224, 224}, torch::kFloat}};
//   spec.dims = {{"batch", {1, 8, 64}}};
//   torch::jit::Module grafted = graft::torchscript::compile(module, spec);
//   grafted.save("grafted.pt");                          // whoever loads it needs libgraft_torch.so only
//
// Errors are c10::Error: ValueError for choices that do not fit the module, NotImplementedError for what Graft cannot
//   do, both with what is concerned, the cause and the remedy.
// Threads. compile may be called from several threads. A grafted module is used like any other: each call that runs at
//   the same time as others gets scratch memory of its own.
// Versions. The library works with the version of torch that it was built with; it says so when it is loaded with
//   another.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/jit/api/module.h>

#define GRAFT_TORCH_API __attribute__((visibility("default")))

namespace graft::torchscript {

/// The size of an axis: a number, or the name of a dimension whose range Spec::dims states.
struct Axis {
  int64_t size = -1;
  std::string dimension;
  Axis(int64_t fixed) : size(fixed) {}                        // NOLINT: {"batch", 3, 224, 224} reads as a shape
  Axis(int fixed) : size(fixed) {}                            // NOLINT
  Axis(const char* name) : dimension(name) {}                 // NOLINT
  Axis(std::string name) : dimension(std::move(name)) {}      // NOLINT
};

/// A tensor that `forward` takes.
struct Input {
  std::vector<Axis> shape;
  c10::ScalarType dtype = c10::ScalarType::Float;
};

/// Sizes of a dimension: engines are made for the usual one and serve all from the smallest to the largest.
struct Range {
  int64_t min = 0, opt = 0, max = 0;
};

/// What becomes engines, and how.
struct Spec {
  std::vector<Input> inputs;          ///< the arguments of `forward`, in order
  std::map<std::string, Range> dims;  ///< by the names in `inputs`
  /// What stays with torch, as graft_host_partition_create has it: {"minimum-size", "3"}, {"exclude-op", "aten::relu"},
  /// {"exclude", "layer4"}, {"only", "backbone"}.
  std::vector<std::pair<std::string, std::string>> partition;
  /// How engines are compiled, as graft_compile has it: {"device", "cpu"}, {"precision", "bf16"}, {"tune", "full"}.
  std::vector<std::pair<std::string, std::string>> options;
  bool require_full = false;  ///< an operator that stays with torch is an error
  bool strict = false;        ///< an engine that cannot be built is an error; else its part stays with torch
};

/// What became of a module.
struct Report {
  size_t engines = 0;    ///< parts that run as engines
  size_t fallbacks = 0;  ///< parts that were meant to and stay with torch, because their engines could not be built
  std::string text;      ///< each part with operators and borders; each operator that stays, why, and its source line
};

/// A module in which engines stand for what Graft can run; `module` is not changed. It has to be in evaluation mode;
/// its parameters become constants, as torch::jit::freeze makes them.
GRAFT_TORCH_API torch::jit::Module compile(const torch::jit::Module& module, const Spec& spec,
                                           Report* report = nullptr);
/// What compile would do, without building engines.
GRAFT_TORCH_API Report dry_run(const torch::jit::Module& module, const Spec& spec);

}  // namespace graft::torchscript
