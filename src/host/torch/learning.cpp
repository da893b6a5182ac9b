// SPDX-License-Identifier: Apache-2.0
#include "learning.h"

#include <cstdio>
#include <cstdlib>

#include <ATen/core/grad_mode.h>

#include "failure.h"
#include "graft/graft_host.h"
#include "inputs.h"

namespace graft::torchscript {
namespace {

namespace jit = torch::jit;
using Choices = std::vector<std::pair<std::string, std::string>>;

/// The arguments that the tensors of a sample are, nested as the method takes them.
class Nesting {
 public:
  explicit Nesting(const std::vector<at::Tensor>& tensors) : tensors_(tensors) {}

  c10::IValue value_of(const Input& input) {
    switch (input.kind) {
      case Input::Kind::kTensor: return next();
      case Input::Kind::kTuple: {
        std::vector<c10::IValue> elements;
        for (const Input& each : input.elements) elements.push_back(value_of(each));
        return c10::ivalue::Tuple::create(std::move(elements));
      }
      case Input::Kind::kList: {
        c10::List<at::Tensor> list;
        for (const Input& each : input.elements) list.push_back(value_of(each).toTensor());
        return list;
      }
      case Input::Kind::kDict: {
        c10::Dict<std::string, at::Tensor> dict;
        for (size_t i = 0; i < input.elements.size(); ++i) {
          dict.insert(input.keys[i], value_of(input.elements[i]).toTensor());
        }
        return dict;
      }
    }
    return {};
  }

 private:
  at::Tensor next() {
    TORCH_CHECK_VALUE(at_ < tensors_.size(), "calibration: a batch has ", tensors_.size(),
                      " tensors, fewer than the method takes");
    return tensors_[at_++];
  }
  const std::vector<at::Tensor>& tensors_;
  size_t at_ = 0;
};

/// Runs a module on the batches of a calibrator.
void run_on(jit::Module& module, const Spec& spec) {
  const at::NoGradGuard no_gradients;
  const jit::Method method = module.get_method(spec.method);
  spec.calibrator->for_each_batch([&](const std::vector<at::Tensor>& tensors) {
    Nesting nesting(tensors);
    std::vector<c10::IValue> arguments;
    for (const Input& input : spec.inputs) arguments.push_back(nesting.value_of(input));
    method(std::move(arguments));
  });
}

/// The file that a calibrator writes: beside its own where that is to be made anew.
std::string written_file(const ptq::Int8Calibrator& calibrator) {
  const bool is_new = !calibrator.cache_file().empty() && !calibrator.use_cache();
  return calibrator.cache_file() + (is_new ? ".new" : "");
}

/// The choices of compiling that a calibrator stands for.
void add_choices(const ptq::Int8Calibrator& calibrator, Choices& options) {
  if (!calibrator.method().empty()) options.emplace_back("method", calibrator.method());
  if (!calibrator.cache_file().empty()) options.emplace_back("calibration-file", written_file(calibrator));
  if (calibrator.has_data()) options.emplace_back("calibration-iters", "0");
}

/// Adds what a type stands for among the precisions of a Spec. fp32 is there without being asked for.
void add_precision(c10::ScalarType type, Choices& options) {
  switch (type) {
    case c10::kFloat: return;
    case c10::kHalf: return options.emplace_back("precision", "fp16"), void();
    case c10::kBFloat16: return options.emplace_back("precision", "bf16"), void();
    case c10::kChar: return options.emplace_back("precision", "int8"), void();
    default: TORCH_CHECK_VALUE(false, "precisions: there is no ", type, "; there are Float, Half, BFloat16 and Char");
  }
}

/// Engines whose names go when nobody needs them any more.
struct Names {
  std::vector<std::string> engines;
  ~Names() { withdraw(engines); }
};

}  // namespace

void withdraw(const std::vector<std::string>& engines) {
  for (const std::string& name : engines) graft_host_withdraw_engine(name.c_str());
}

torch::jit::Module compile(const torch::jit::Module& module, const Spec& given, Report* report) {
  Spec spec = given;
  for (const c10::ScalarType precision : given.precisions) add_precision(precision, spec.options);
  if (!spec.calibrator) return compile_with(module, spec, {}, report);
  add_choices(*spec.calibrator, spec.options);
  const std::string made = written_file(*spec.calibrator);
  const bool replaces = made != spec.calibrator->cache_file();
  if (replaces) std::remove(made.c_str());
  LearningModule learning = learning_module(module, spec);
  const Names names{learning.engines};
  if (learning.learns) run_on(learning.module, spec);
  torch::jit::Module compiled = compile_with(module, spec, names.engines, report);
  TORCH_CHECK_VALUE(!replaces || std::rename(made.c_str(), spec.calibrator->cache_file().c_str()) == 0,
                    "the calibration file ", spec.calibrator->cache_file(), " cannot be written");
  return compiled;
}

}  // namespace graft::torchscript
