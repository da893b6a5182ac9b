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
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/jit/api/module.h>

#include <graft/ptq.h>

#define GRAFT_TORCH_API __attribute__((visibility("default")))

namespace graft::torchscript {

/// Sizes of a dimension: engines are made for the usual one and serve all from the smallest to the largest.
struct Range {
  int64_t min = 0, opt = 0, max = 0;
};

/// The size of an axis: a number, a range, or the name of a dimension whose range Spec::dims states.
struct Axis {
  int64_t size = -1;
  std::string dimension;
  std::optional<Range> range;
  Axis(int64_t fixed) : size(fixed) {}                        // NOLINT: {"batch", 3, 224, 224} reads as a shape
  Axis(int fixed) : size(fixed) {}                            // NOLINT
  Axis(const char* name) : dimension(name) {}                 // NOLINT
  Axis(std::string name) : dimension(std::move(name)) {}      // NOLINT
  Axis(Range sizes) : range(sizes) {}                         // NOLINT
};

/// An argument of the method: a tensor, or a tuple, list or dict of arguments.
struct Input {
  std::vector<Axis> shape;
  /// Undefined: that of the first weights that it meets (int64 for indices of an embedding), else Float with a warning.
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  // What sample inputs are like, with which compare() runs a module:
  bool channels_last = false;
  double low = 0, high = 2;  ///< elements lie in [low, high)

  enum class Kind { kTensor, kTuple, kList, kDict };
  Kind kind = Kind::kTensor;
  std::vector<Input> elements = {};     ///< of a tuple, list or dict
  std::vector<std::string> keys = {};   ///< of a dict, one for each element

  /// A tensor whose sizes are ranges, independent of each other: one of the three lists is as long as the others.
  GRAFT_TORCH_API static Input range(const std::vector<int64_t>& min, const std::vector<int64_t>& opt,
                                     const std::vector<int64_t>& max,
                                     c10::ScalarType dtype = c10::ScalarType::Undefined);
  GRAFT_TORCH_API static Input tuple(std::vector<Input> elements);
  GRAFT_TORCH_API static Input list(std::vector<Input> elements);
  GRAFT_TORCH_API static Input dict(std::vector<std::pair<std::string, Input>> elements);
};

/// What becomes engines, and how.
struct Spec {
  std::vector<Input> inputs;          ///< the arguments of the method, in order
  std::map<std::string, Range> dims;  ///< by the names in `inputs`
  /// What stays with torch, as graft_host_partition_create has it: {"minimum-size", "3"}, {"exclude-op", "aten::relu"},
  /// {"exclude", "layer4"}, {"only", "backbone"}.
  std::vector<std::pair<std::string, std::string>> partition;
  /// How engines are compiled, as graft_compile has it: {"device", "cpu"}, {"precision", "bf16"}, {"tune", "full"}.
  std::vector<std::pair<std::string, std::string>> options;
  /// The same as the option precision, by types: Float, and Half, BFloat16 or Char (int8, whose other operators are in
  /// the narrower of the others).
  std::set<c10::ScalarType> precisions = {};
  /// Of int8: samples or ranges. Without it the option calibration-file names ranges, or the module is quantised
  /// already.
  std::shared_ptr<ptq::Int8Calibrator> calibrator = nullptr;
  bool require_full = false;  ///< an operator that stays with torch is an error
  /// An engine that cannot be built is an error, and so are inputs outside of an engine's ranges; else that part runs
  /// in torch, which the module keeps a copy of for that.
  bool strict = false;
  std::string method = "forward";
};

/// What became of a module.
struct Report {
  size_t engines = 0;    ///< parts that run as engines
  size_t fallbacks = 0;  ///< parts that were meant to and stay with torch, because their engines could not be built
  std::string text;      ///< each part with operators and borders; each operator that stays, why, and its source line
  std::vector<std::string> warnings = {};  ///< what was guessed of the inputs, or stated against what weights say
};

/// A module in which engines stand for what Graft can run; `module` is not changed. It has to be in evaluation mode;
/// its parameters become constants, as torch::jit::freeze makes them.
GRAFT_TORCH_API torch::jit::Module compile(const torch::jit::Module& module, const Spec& spec,
                                           Report* report = nullptr);
/// What compile would do, without building engines.
GRAFT_TORCH_API Report dry_run(const torch::jit::Module& module, const Spec& spec);
/// What no engine can do of a method, a line for each: the operator, why, and its source line. Empty: all of it can.
GRAFT_TORCH_API std::vector<std::string> check_operator_support(const torch::jit::Module& module, const Spec& spec);
/// The method's graph before and after each pass that lowers it: (name, text), the first is "frozen".
GRAFT_TORCH_API std::vector<std::pair<std::string, std::string>> lowering_steps(const torch::jit::Module& module,
                                                                                const Spec& spec);

/// The module as one that computes partly in float16 or bfloat16 (docs/AMP.md), with arguments and results of the types
/// that it had; it needs no library of Graft's. `request` is JSON, as of graft_convert_symbol:
/// {"target_dtype": "float16"}.
/// `casts`: how many were inserted. Of `spec` the inputs, dims and method count.
GRAFT_TORCH_API torch::jit::Module mix(const torch::jit::Module& module, const Spec& spec, const std::string& request,
                                       size_t* casts = nullptr);

/// The bytes of a plan file (graft_load reads it, without torch) that does all that the method does; its inputs have
/// the names of the method's arguments. NotImplementedError names each operator that no engine can do.
GRAFT_TORCH_API std::string convert_to_plan(const torch::jit::Module& module, const Spec& spec);
/// A module that runs a plan, wherever that was made: it takes the plan's inputs in their order, or that of `inputs`
/// (their names), and gives its output, or a tuple of its outputs.
GRAFT_TORCH_API torch::jit::Module embed_plan(const std::string& plan, const std::string& device = "cpu",
                                              const std::vector<std::string>& inputs = {});

/// How far two modules differ.
struct Difference {
  double absolute = 0;   ///< the largest difference of two elements
  double relative = 0;   ///< that over the largest magnitude of the tensor
  std::string fault;     ///< what cannot be compared: other types, sizes or structures; empty when all can
};
/// Runs both on the same random inputs, of the usual sizes, and compares all tensors of what they give.
GRAFT_TORCH_API Difference compare(torch::jit::Module first, torch::jit::Module second, const Spec& spec);

/// Versions of Graft and torch, and of the format of engines in modules.
GRAFT_TORCH_API std::string get_build_info();

}  // namespace graft::torchscript
