// SPDX-License-Identifier: Apache-2.0
// Sample inputs of a method, what two modules make of them, and modules made of plans.
#include <cmath>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/version.h>

#include "engine.h"
#include "graft/torchscript.h"
#include "inputs.h"

namespace graft::torchscript {
namespace {

namespace jit = torch::jit;

constexpr uint64_t kSeed = 1;

/// Random elements in the input's domain; the caller's generators stay as they are.
at::Tensor sample_of(const Spec& spec, const Input& input, at::Generator& generator, c10::Device device) {
  TORCH_CHECK_VALUE(input.low < input.high, "inputs: the domain [", input.low, ", ", input.high, ") is empty");
  const std::vector<int64_t> sizes = sizes_at(spec, input, &Range::opt);
  at::Tensor made;
  if (at::isFloatingType(input.dtype)) {
    made = (at::rand(sizes, generator, at::kDouble) * (input.high - input.low) + input.low).to(input.dtype);
  } else {
    const int64_t low = static_cast<int64_t>(std::ceil(input.low)), high = static_cast<int64_t>(std::ceil(input.high));
    made = at::randint(low, std::max(low + 1, high), sizes, generator, at::kLong).to(input.dtype);
  }
  const bool channels = input.channels_last && made.dim() == 4;
  return channels ? made.to(device).contiguous(at::MemoryFormat::ChannelsLast) : made.to(device);
}

/// Adds the differences of two values of one structure.
void add_difference(const c10::IValue& first, const c10::IValue& second, const std::string& where, Difference& found) {
  if (!found.fault.empty()) return;
  if (first.tagKind() != second.tagKind()) {
    found.fault = where + " is " + first.tagKind() + " and " + second.tagKind();
  } else if (first.isTensor() && first.toTensor().defined()) {
    const at::Tensor a = first.toTensor(), b = second.toTensor();
    if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) {
      found.fault = c10::str(where, " is ", a.toString(), a.sizes(), " and ", b.toString(), b.sizes());
      return;
    }
    if (a.numel() == 0) return;
    const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
    const at::Tensor apart = at::where(at::eq(x, y).logical_or(at::isnan(x).logical_and(at::isnan(y))),
                                       at::zeros_like(x), at::abs(at::sub(x, y)));
    const double largest = at::max(at::nan_to_num(apart, HUGE_VAL)).item<double>();
    const double magnitude = at::max(at::abs(at::nan_to_num(x, 0., 0., 0.))).item<double>();
    found.absolute = std::max(found.absolute, largest);
    found.relative = std::max(found.relative, largest == 0 ? 0 : largest / magnitude);
  } else if (first.isTuple() || first.isList()) {
    const auto list = [](const c10::IValue& value) {
      return value.isTuple() ? value.toTupleRef().elements().vec() : value.toListRef().vec();
    };
    const std::vector<c10::IValue> a = list(first), b = list(second);
    if (a.size() != b.size()) found.fault = c10::str(where, " has ", a.size(), " and ", b.size(), " elements");
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      add_difference(a[i], b[i], c10::str(where, "[", i, "]"), found);
    }
  } else if (first.isGenericDict()) {
    const auto a = first.toGenericDict(), b = second.toGenericDict();
    for (const auto& entry : a) {
      const std::string key = c10::str(where, "[", entry.key(), "]");
      if (!b.contains(entry.key())) found.fault = key + " is in the first alone";
      else add_difference(entry.value(), b.at(entry.key()), key, found);
    }
  } else if (first != second) {
    found.fault = c10::str(where, " is ", first, " and ", second);
  }
}

/// What the method gives; buffers that it writes to, which modules share, are put back.
c10::IValue run_once(jit::Module& module, const std::string& method, const std::vector<c10::IValue>& inputs) {
  std::vector<std::pair<at::Tensor, at::Tensor>> kept;
  for (const at::Tensor& buffer : module.buffers()) {
    if (buffer.defined()) kept.emplace_back(buffer, buffer.clone());
  }
  c10::IValue result = module.get_method(method)(inputs).deepcopy();  // it may be a buffer
  for (auto& [buffer, before] : kept) buffer.copy_(before);
  return result;
}

}  // namespace

std::vector<c10::IValue> sample_inputs(const jit::Graph& graph, const Spec& spec) {
  c10::Device device(c10::kCPU);
  for (const auto& [key, value] : spec.options) {
    if (key == "device") device = c10::Device(value);
  }
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(kSeed);
  std::vector<c10::IValue> inputs;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    inputs.push_back(value_of(spec.inputs[i], graph.inputs()[i + 1]->type(), [&](const Input& input) {
      return sample_of(spec, input, generator, device);
    }));
  }
  return inputs;
}

Difference compare(jit::Module first, jit::Module second, const Spec& spec) {
  const at::NoGradGuard no_gradients;
  std::vector<std::string> guesses;
  const jit::Graph& graph = *first.get_method(spec.method).graph();
  const std::vector<c10::IValue> inputs = sample_inputs(graph, resolve_inputs(graph, spec, guesses));
  std::vector<c10::IValue> again;  // a method may write to what it is given
  for (const c10::IValue& input : inputs) again.push_back(input.deepcopy());
  Difference found;
  add_difference(run_once(first, spec.method, inputs), run_once(second, spec.method, again), "the result", found);
  return found;
}

jit::Module embed_plan(const std::string& plan, const std::string& device, const std::vector<std::string>& inputs) {
  check_torch_version();
  at::Tensor bytes = at::empty({static_cast<int64_t>(plan.size())}, at::kByte);
  std::copy(plan.begin(), plan.end(), static_cast<char*>(bytes.data_ptr()));
  const auto engine =
      Engine::from_plan(bytes, {.device = device, .name = "the plan", .has_native = false, .readers = {}});
  const std::vector<std::string> names = engine->input_names();
  const std::vector<std::string>& order = inputs.empty() ? names : inputs;
  TORCH_CHECK_VALUE(order.size() == names.size(), "embed_plan: the plan has ", names.size(), " inputs (", names, "), ",
                    order.size(), " are named");
  jit::Module made("graft.Plan");
  const c10::TypePtr type = c10::getCustomClassType<c10::intrusive_ptr<Engine>>();
  made.register_attribute("graft_engine_0", type, c10::IValue(engine));
  const auto graph = std::make_shared<jit::Graph>();
  jit::Value* self = graph->addInput("self");
  self->setType(made._ivalue()->type());
  std::map<std::string, jit::Value*> arguments;
  for (const std::string& name : order) arguments[name] = graph->addInput(is_value_name(name) ? name : "");
  std::vector<jit::Value*> given;
  for (const std::string& name : names) {
    const auto found = arguments.find(name);
    TORCH_CHECK_VALUE(found != arguments.end(), "embed_plan: the plan's input '", name, "' is not among those named: ",
                      order);
    given.push_back(found->second);
  }
  jit::Value* list = graph->insertNode(graph->createList(c10::TensorType::get(), given))->output();
  jit::Value* attribute = graph->insertGetAttr(self, "graft_engine_0");
  attribute->setType(type);
  jit::Node* call = graph->insertNode(
      graph->create(c10::Symbol::fromQualString("graft::execute_engine"), {list, attribute}, 1));
  call->output()->setType(c10::ListType::ofTensors());
  const auto results = graph->insertNode(graph->createListUnpack(call->output(), engine->output_count()))->outputs();
  if (results.size() == 1) graph->registerOutput(results[0]);
  else graph->registerOutput(graph->insertNode(graph->createTuple(results))->output());
  graph->lint();
  const c10::QualifiedName name(*made.type()->name(), "forward");
  made.type()->addMethod(made._ivalue()->compilation_unit()->create_function(name, graph));
  return made;
}

std::string get_build_info() {
  return std::string("graft ") + graft_version() + "\ntorch " + TORCH_VERSION + "\nengine format " +
         std::to_string(kEngineFormat) + "\n";
}

}  // namespace graft::torchscript
