// SPDX-License-Identifier: Apache-2.0
// What torch sees of Graft: the class of engines, the operator that runs one, and compile and dry_run for Python, which
// hands modules in and gets them back as what they are in C++.
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include "element_types.h"
#include "engine.h"
#include "graft/torchscript.h"

namespace graft::torchscript {
namespace {

using Stack = std::vector<c10::IValue>;

std::vector<at::Tensor> execute_engine(const std::vector<at::Tensor>& inputs,
                                       const c10::intrusive_ptr<Engine>& engine) {
  return engine->run(inputs);
}

Axis axis_of(const std::string& text) {
  const bool number = !text.empty() && text.find_first_not_of("-0123456789") == std::string::npos;
  return number ? Axis(static_cast<int64_t>(std::stoll(text))) : Axis(text);
}

std::vector<std::pair<std::string, std::string>> pairs_of(const c10::IValue& list) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const c10::IValue& pair : list.toListRef()) {
    const auto& elements = pair.toTupleRef().elements();
    pairs.emplace_back(elements.at(0).toStringRef(), elements.at(1).toStringRef());
  }
  return pairs;
}

/// Of `(str, str[])[] inputs, (str, int[])[] dims, (str, str)[] partition, (str, str)[] options, bool, bool`.
Spec spec_of(const Stack& stack, size_t first) {
  Spec spec;
  for (const c10::IValue& input : stack[first].toListRef()) {
    const auto& elements = input.toTupleRef().elements();
    const auto type = scalar_type_named(elements.at(0).toStringRef());
    TORCH_CHECK_VALUE(type, "there is no element type '", elements.at(0).toStringRef(), "'");
    Input described{.shape = {}, .dtype = *type};
    for (const c10::IValue& axis : elements.at(1).toListRef()) described.shape.push_back(axis_of(axis.toStringRef()));
    spec.inputs.push_back(std::move(described));
  }
  for (const c10::IValue& dimension : stack[first + 1].toListRef()) {
    const auto& elements = dimension.toTupleRef().elements();
    const auto range = elements.at(1).toIntVector();
    spec.dims[elements.at(0).toStringRef()] = {range.at(0), range.at(1), range.at(2)};
  }
  spec.partition = pairs_of(stack[first + 2]);
  spec.options = pairs_of(stack[first + 3]);
  spec.require_full = stack[first + 4].toBool();
  spec.strict = stack[first + 5].toBool();
  return spec;
}

void give(const Report& report, Stack& stack) {
  stack.emplace_back(static_cast<int64_t>(report.engines));
  stack.emplace_back(static_cast<int64_t>(report.fallbacks));
  stack.emplace_back(report.text);
}

void compile_module(const c10::OperatorHandle&, Stack* stack) {
  const Spec spec = spec_of(*stack, 1);
  Report report;
  const torch::jit::Module made = compile(torch::jit::Module((*stack)[0].toObject()), spec, &report);
  *stack = {c10::IValue(made._ivalue())};
  give(report, *stack);
}

void dry_run_module(const c10::OperatorHandle&, Stack* stack) {
  const Report report = dry_run(torch::jit::Module((*stack)[0].toObject()), spec_of(*stack, 1));
  stack->clear();
  give(report, *stack);
}

}  // namespace

TORCH_LIBRARY(graft, library) {
  library.class_<Engine>("Engine")
      .def("describe", [](const c10::intrusive_ptr<Engine>& engine) { return engine->describe(); })
      .def_pickle([](const c10::intrusive_ptr<Engine>& engine) { return engine->state(); },
                  [](const Engine::State& state) { return Engine::from_state(state); });
  library.def("execute_engine(Tensor[] inputs, __torch__.torch.classes.graft.Engine engine) -> Tensor[]");
  library.def("check_torch_version() -> ()", check_torch_version);
  const std::string spec = "(Any module, (str, str[])[] inputs, (str, int[])[] dims, (str, str)[] partition, "
                           "(str, str)[] options, bool require_full, bool strict)";
  library.def(("compile_module" + spec + " -> (Any, int, int, str)").c_str(),
              torch::CppFunction::makeFromBoxedFunction<&compile_module>());
  library.def(("dry_run_module" + spec + " -> (int, int, str)").c_str(),
              torch::CppFunction::makeFromBoxedFunction<&dry_run_module>());
}

TORCH_LIBRARY_IMPL(graft, CompositeExplicitAutograd, library) { library.impl("execute_engine", execute_engine); }

/// Engines have no gradients: asking for one is an error of backward().
TORCH_LIBRARY_IMPL(graft, Autograd, library) {
  library.impl("execute_engine", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace graft::torchscript
