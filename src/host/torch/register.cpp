// SPDX-License-Identifier: Apache-2.0
// What torch sees of Graft: the class of engines, the operator that runs one, and compile and dry_run for Python, which
// hands modules in and gets them back as what they are in C++.
#include <algorithm>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include "element_types.h"
#include "engine.h"
#include "graft/torchscript.h"
#include "learning.h"

namespace graft::torchscript {
namespace {

using Stack = std::vector<c10::IValue>;

std::vector<at::Tensor> execute_engine(const std::vector<at::Tensor>& inputs,
                                       const c10::intrusive_ptr<Engine>& engine) {
  return engine->run(inputs);
}

at::Tensor engine_weight(const c10::intrusive_ptr<Engine>& engine, int64_t index) { return engine->weight(index); }

/// `8`, `batch`, or `1:8:64`.
Axis axis_of(const std::string& text) {
  const bool numbers = !text.empty() && text.find_first_not_of("-0123456789:") == std::string::npos;
  if (!numbers) return text;
  const size_t first = text.find(':'), second = first == std::string::npos ? first : text.find(':', first + 1);
  if (second == std::string::npos) return static_cast<int64_t>(std::stoll(text));
  return Range{std::stoll(text), std::stoll(text.substr(first + 1)), std::stoll(text.substr(second + 1))};
}

std::vector<std::pair<std::string, std::string>> pairs_of(const c10::IValue& list) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const c10::IValue& pair : list.toListRef()) {
    const auto& elements = pair.toTupleRef().elements();
    pairs.emplace_back(elements.at(0).toStringRef(), elements.at(1).toStringRef());
  }
  return pairs;
}

/// The tensors of inputs in order, and what holds them: `*` is a tensor, `(..)` a tuple, `[..]` a list, `{..}` a dict.
class Structures {
 public:
  Structures(std::string text, std::vector<Input> tensors, std::vector<std::string> keys)
      : text_(std::move(text)), tensors_(std::move(tensors)), keys_(std::move(keys)) {}

  std::vector<Input> read_until(char end) {
    std::vector<Input> inputs;
    for (; at_ < text_.size() && text_[at_] != end;) inputs.push_back(read());
    ++at_;
    return inputs;
  }

 private:
  Input read() {
    const char kind = text_[at_++];
    if (kind == '*') return tensors_.at(tensor_++);
    if (kind == '(') return Input::tuple(read_until(')'));
    if (kind == '[') return Input::list(read_until(']'));
    TORCH_CHECK_VALUE(kind == '{', "inputs: '", text_, "' is no structure");
    std::vector<std::pair<std::string, Input>> elements;
    for (; at_ < text_.size() && text_[at_] != '}';) {
      std::string key = keys_.at(key_++);
      elements.emplace_back(std::move(key), read());
    }
    ++at_;
    return Input::dict(std::move(elements));
  }

  std::string text_;
  std::vector<Input> tensors_;
  std::vector<std::string> keys_;
  size_t at_ = 0, tensor_ = 0, key_ = 0;
};

// How Python hands a Spec in; a tensor is its type (empty: unknown), sizes, memory format and domain.
const char* const kSpec = "str method, (str, str[], bool, float, float)[] tensors, str structure, str[] keys, "
                          "(str, int[])[] dims, (str, str)[] partition, (str, str)[] options, bool require_full, "
                          "bool strict";

Input tensor_of(const c10::IValue& given) {
  const auto& elements = given.toTupleRef().elements();
  const std::string name = elements.at(0).toStringRef();
  const auto type = scalar_type_named(name);
  TORCH_CHECK_VALUE(type || name.empty(), "there is no element type '", name, "'");
  Input input{.shape = {}, .dtype = type.value_or(c10::ScalarType::Undefined)};
  for (const c10::IValue& axis : elements.at(1).toListRef()) input.shape.push_back(axis_of(axis.toStringRef()));
  input.channels_last = elements.at(2).toBool();
  input.low = elements.at(3).toDouble(), input.high = elements.at(4).toDouble();
  return input;
}

/// Of what kSpec says, from the stack's place `first` on.
Spec spec_of(const Stack& stack, size_t first) {
  Spec spec;
  spec.method = stack[first].toStringRef();
  std::vector<Input> tensors;
  for (const c10::IValue& tensor : stack[first + 1].toListRef()) tensors.push_back(tensor_of(tensor));
  std::vector<std::string> keys;
  for (const c10::IValue& key : stack[first + 3].toListRef()) keys.push_back(key.toStringRef());
  spec.inputs = Structures(stack[first + 2].toStringRef(), std::move(tensors), std::move(keys)).read_until('\0');
  for (const c10::IValue& dimension : stack[first + 4].toListRef()) {
    const auto& elements = dimension.toTupleRef().elements();
    const auto range = elements.at(1).toIntVector();
    spec.dims[elements.at(0).toStringRef()] = {range.at(0), range.at(1), range.at(2)};
  }
  spec.partition = pairs_of(stack[first + 5]);
  spec.options = pairs_of(stack[first + 6]);
  spec.require_full = stack[first + 7].toBool();
  spec.strict = stack[first + 8].toBool();
  return spec;
}

void give(const Report& report, Stack& stack) {
  stack.emplace_back(static_cast<int64_t>(report.engines));
  stack.emplace_back(static_cast<int64_t>(report.fallbacks));
  stack.emplace_back(report.text);
  stack.emplace_back(report.warnings);
}

std::vector<std::string> texts_of(const c10::IValue& list) {
  std::vector<std::string> texts;
  for (const c10::IValue& text : list.toListRef()) texts.push_back(text.toStringRef());
  return texts;
}

/// The last argument: engines that have learned, by their names; none: all are compiled.
void compile_module(const c10::OperatorHandle&, Stack* stack) {
  const Spec spec = spec_of(*stack, 1);
  Report report;
  const torch::jit::Module made = compile_with(torch::jit::Module((*stack)[0].toObject()), spec,
                                               texts_of(stack->back()), &report);
  *stack = {c10::IValue(made._ivalue())};
  give(report, *stack);
}

void learn_module(const c10::OperatorHandle&, Stack* stack) {
  const LearningModule made = learning_module(torch::jit::Module((*stack)[0].toObject()), spec_of(*stack, 1));
  c10::List<std::string> names;
  for (const std::string& name : made.engines) names.push_back(name);
  *stack = {c10::IValue(made.module._ivalue()), std::move(names), made.learns};
}

void mix_module(const c10::OperatorHandle&, Stack* stack) {
  const std::string request = stack->back().toStringRef();
  size_t casts = 0;
  const torch::jit::Module made =
      mix(torch::jit::Module((*stack)[0].toObject()), spec_of(*stack, 1), request, &casts);
  *stack = {c10::IValue(made._ivalue()), static_cast<int64_t>(casts)};
}

void dry_run_module(const c10::OperatorHandle&, Stack* stack) {
  const Report report = dry_run(torch::jit::Module((*stack)[0].toObject()), spec_of(*stack, 1));
  stack->clear();
  give(report, *stack);
}

void check_module(const c10::OperatorHandle&, Stack* stack) {
  c10::List<std::string> lines;
  for (std::string& line : check_operator_support(torch::jit::Module((*stack)[0].toObject()), spec_of(*stack, 1))) {
    lines.push_back(std::move(line));
  }
  *stack = {c10::IValue(std::move(lines))};
}

void lower_module(const c10::OperatorHandle&, Stack* stack) {
  c10::List<std::tuple<std::string, std::string>> steps;
  for (auto& [name, text] : lowering_steps(torch::jit::Module((*stack)[0].toObject()), spec_of(*stack, 1))) {
    steps.push_back({std::move(name), std::move(text)});
  }
  *stack = {c10::IValue(std::move(steps))};
}

at::Tensor as_tensor(const std::string& bytes) {
  at::Tensor made = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(made.data_ptr()));
  return made;
}

void convert_module(const c10::OperatorHandle&, Stack* stack) {
  *stack = {c10::IValue(as_tensor(convert_to_plan(torch::jit::Module((*stack)[0].toObject()), spec_of(*stack, 1))))};
}

void embed(const c10::OperatorHandle&, Stack* stack) {
  const at::Tensor plan = (*stack)[0].toTensor().contiguous();
  std::vector<std::string> inputs;
  for (const c10::IValue& name : (*stack)[2].toListRef()) inputs.push_back(name.toStringRef());
  const torch::jit::Module made = embed_plan(
      {static_cast<const char*>(plan.const_data_ptr()), static_cast<size_t>(plan.numel())},
      (*stack)[1].toStringRef(), inputs);
  *stack = {c10::IValue(made._ivalue())};
}

void compare_modules(const c10::OperatorHandle&, Stack* stack) {
  const Difference found = compare(torch::jit::Module((*stack)[0].toObject()),
                                   torch::jit::Module((*stack)[1].toObject()), spec_of(*stack, 2));
  *stack = {found.absolute, found.relative, found.fault};
}

/// Of an argument, its default, and its name: throws unless it is that.
void check_default(const c10::OperatorHandle&, Stack* stack) {
  const c10::IValue& argument = (*stack)[0];
  const bool same = argument.tagKind() == (*stack)[1].tagKind() && argument == (*stack)[1];
  TORCH_CHECK_VALUE(same, "the argument '", (*stack)[2].toStringRef(), "' is given, and the module was compiled for "
                    "its default: describe it in the inputs, and compile again");
  stack->clear();
}

/// Gives the argument back if it is what the module was compiled for.
at::Tensor check_argument(const at::Tensor& argument, const std::string& name, at::IntArrayRef sizes, int64_t dtype) {
  bool fits = argument.dim() == static_cast<int64_t>(sizes.size()) &&
              argument.scalar_type() == static_cast<c10::ScalarType>(dtype);
  for (size_t axis = 0; fits && axis < sizes.size(); ++axis) {
    fits = sizes[axis] < 0 || sizes[axis] == argument.size(static_cast<int64_t>(axis));
  }
  TORCH_CHECK_VALUE(fits, "the argument '", name, "' is ", argument.scalar_type(), argument.sizes(),
                    ", and the module was compiled for ", static_cast<c10::ScalarType>(dtype), sizes,
                    " (-1: any size), which its loops and branches depend on: compile it for these sizes, or with "
                    "ranges");
  return argument;
}

}  // namespace

TORCH_LIBRARY(graft, library) {
  library.class_<Engine>("Engine")
      .def("describe", [](const c10::intrusive_ptr<Engine>& engine) { return engine->describe(); })
      .def_pickle([](const c10::intrusive_ptr<Engine>& engine) { return engine->state(); },
                  [](const Engine::State& state) { return Engine::from_state(state); });
  library.def("execute_engine(Tensor[] inputs, __torch__.torch.classes.graft.Engine engine) -> Tensor[]");
  library.def("engine_weight(__torch__.torch.classes.graft.Engine engine, int index) -> Tensor");
  library.def("check_torch_version() -> ()", check_torch_version);
  library.def("check_argument(Tensor(a) argument, str name, int[] sizes, int dtype) -> Tensor(a)");
  library.def("build_info() -> str", get_build_info);
  library.def(torch::schema("check_default(Any argument, Any wanted, str name) -> ()",
                            c10::AliasAnalysisKind::CONSERVATIVE),
              torch::CppFunction::makeFromBoxedFunction<&check_default>());
  const auto define = [&](const std::string& name, const std::string& arguments, const std::string& results,
                          torch::CppFunction&& function) {
    library.def((name + "(" + arguments + ") -> " + results).c_str(), std::move(function));
  };
  const std::string module_and_spec = std::string("Any module, ") + kSpec;
  using torch::CppFunction;
  define("learn_module", module_and_spec, "(Any, str[], bool)", CppFunction::makeFromBoxedFunction<&learn_module>());
  define("compile_module", module_and_spec + ", str[] engines", "(Any, int, int, str, str[])",
         CppFunction::makeFromBoxedFunction<&compile_module>());
  define("dry_run_module", module_and_spec, "(int, int, str, str[])",
         CppFunction::makeFromBoxedFunction<&dry_run_module>());
  define("mix_module", module_and_spec + ", str request", "(Any, int)",
         CppFunction::makeFromBoxedFunction<&mix_module>());
  define("check_module", module_and_spec, "str[]", CppFunction::makeFromBoxedFunction<&check_module>());
  define("lower_module", module_and_spec, "((str, str)[])", CppFunction::makeFromBoxedFunction<&lower_module>());
  define("convert_module", module_and_spec, "Tensor", CppFunction::makeFromBoxedFunction<&convert_module>());
  define("compare_modules", "Any first, " + module_and_spec, "(float, float, str)",
         CppFunction::makeFromBoxedFunction<&compare_modules>());
  define("embed_plan", "Tensor plan, str device, str[] inputs", "Any", CppFunction::makeFromBoxedFunction<&embed>());
}

TORCH_LIBRARY_IMPL(graft, CompositeExplicitAutograd, library) {
  library.impl("execute_engine", execute_engine);
  library.impl("engine_weight", engine_weight);
  library.impl("check_argument", check_argument);
}

/// Engines have no gradients: asking for one is an error of backward().
TORCH_LIBRARY_IMPL(graft, Autograd, library) {
  library.impl("execute_engine", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace graft::torchscript
