// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include "element_types.h"
#include "failure.h"
#include "graft/graft_host.h"
#include "native_stream.h"

namespace graft::torchscript {
namespace {

void* const kLegacyStream = reinterpret_cast<void*>(1);  // cudaStreamLegacy, which torch calls 0

/// What graft_allocator's context is: the run's outputs.
struct Outputs {
  std::vector<at::Tensor> tensors;
  c10::Device device;
  std::string failure;
};

void* allocate_output(void* context, int32_t output, int32_t dtype, int32_t rank, const int64_t* shape, size_t) {
  Outputs& outputs = *static_cast<Outputs*>(context);
  try {
    const auto type = scalar_type(dtype);
    TORCH_CHECK(type, "torch has no element type ", dtype);
    at::Tensor& made = outputs.tensors[static_cast<size_t>(output)];
    made = at::empty(c10::IntArrayRef(shape, static_cast<size_t>(rank)),
                     at::TensorOptions().dtype(*type).device(outputs.device));
    static int64_t nothing = 0;  // of a tensor without elements, which has no memory
    return made.numel() == 0 ? &nothing : made.data_ptr();
  } catch (const std::exception& failure) {
    outputs.failure = failure.what();
    return nullptr;
  }
}

/// The version of torch as far as its interfaces go: without what names a build.
std::string release_of(const std::string& version) { return version.substr(0, version.find('+')); }

}  // namespace

void check_torch_version() {
  const std::string configuration = at::show_config(), key = "TORCH_VERSION=";
  const size_t begin = configuration.find(key);
  if (begin == std::string::npos) return;
  const size_t end = configuration.find_first_of(", \n", begin + key.size());
  const std::string here = configuration.substr(begin + key.size(), end - begin - key.size());
  TORCH_CHECK(release_of(here) == release_of(TORCH_VERSION), "libgraft_torch.so was built for torch ", TORCH_VERSION,
              " and this is torch ", here, ": build it again with this version (docs/PYTORCH.md)");
}

namespace {

/// `Float 64,3,7,7 PLACE`
std::string print(const NativeWeight& weight) {
  std::string text = c10::toString(weight.type);
  for (size_t axis = 0; axis < weight.sizes.size(); ++axis) {
    text += (axis == 0 ? " " : ",") + std::to_string(weight.sizes[axis]);
  }
  return text + " " + weight.place;
}

NativeWeight parse_weight(const std::string& text) {
  NativeWeight weight;
  std::istringstream words(text);
  std::string type, sizes, size;
  words >> type >> sizes >> std::ws;
  std::getline(words, weight.place);
  for (const auto known : {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble}) {
    if (type == c10::toString(known)) weight.type = known;
  }
  for (std::istringstream list(sizes); std::getline(list, size, ',');) {
    const bool number = !size.empty() && size.size() < 13 && size.find_first_not_of("0123456789") == size.npos;
    weight.sizes.push_back(number ? std::stoll(size) : -1);
  }
  const bool valid = std::all_of(weight.sizes.begin(), weight.sizes.end(), [](int64_t each) { return each >= 0; });
  TORCH_CHECK_VALUE(valid && weight.type != c10::ScalarType::Undefined,
                    "graft::Engine: the module's file is damaged: '", text, "' is no weight");
  return weight;
}

}  // namespace

std::string EngineSettings::print() const {
  std::string text = "device " + device + "\nname " + name + "\nnative " + (has_native ? "1" : "0") + "\n";
  for (const std::string& reader : readers) text += "reader " + reader + "\n";
  for (const int64_t input : computed) text += "computed " + std::to_string(input) + "\n";
  for (const NativeWeight& weight : weights) text += "weight " + torchscript::print(weight) + "\n";
  return text;
}

EngineSettings EngineSettings::parse(const std::string& text) {
  EngineSettings settings;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at), key = line.substr(0, line.find(' '));
    const std::string value = line.size() > key.size() ? line.substr(key.size() + 1) : "";
    if (key == "device") settings.device = value;
    else if (key == "name") settings.name = value;
    else if (key == "native") settings.has_native = value == "1";
    else if (key == "reader") settings.readers.push_back(value);
    else if (key == "computed") settings.computed.push_back(std::atoll(value.c_str()));
    else if (key == "weight") settings.weights.push_back(parse_weight(value));
    else TORCH_CHECK_VALUE(false, "graft::Engine: the module's file is damaged: '", key, "' is no setting");
    at = end + 1;
  }
  return settings;
}

Engine::Engine(graft_engine* handle, EngineSettings settings)
    : sessions_(graft::Engine(handle)), settings_(std::move(settings)) {}

c10::intrusive_ptr<Engine> Engine::from_state(const State& state) {
  const auto& [format, version_of_torch, settings, plan] = state;
  TORCH_CHECK_VALUE(1 <= format && format <= kEngineFormat, "graft::Engine: the module's engines have format ", format,
                    ", this version of Graft reads 1 to ", kEngineFormat, ": compile the module again, or load it with "
                    "the version of Graft that saved it");
  EngineSettings known{.device = settings, .name = "engine", .has_native = false, .readers = {},
                       .computed = {}, .weights = {}};  // of format 1
  if (format > 1) known = EngineSettings::parse(settings);
  return from_plan(plan, std::move(known));
}

c10::intrusive_ptr<Engine> Engine::from_plan(const at::Tensor& plan, EngineSettings settings) {
  const graft_option option{"device", settings.device.c_str()};
  graft_engine* engine = nullptr;
  graft_error error;
  auto* const kept = new at::Tensor(plan.cpu().contiguous());  // wherever map_location put it
  check(graft_load_bytes(kept->data_ptr(), static_cast<size_t>(kept->numel()),
                         [](void* tensor) { delete static_cast<at::Tensor*>(tensor); }, kept, &option, 1, &engine,
                         &error),
        error);
  return c10::make_intrusive<Engine>(engine, std::move(settings));
}

Engine::State Engine::state() const {
  at::Tensor plan;
  graft_error error;
  const auto allocate = [](void* tensor, size_t bytes) -> void* {
    try {
      auto& made = *static_cast<at::Tensor*>(tensor);
      made = at::empty({static_cast<int64_t>(bytes)}, at::kByte);
      return made.data_ptr();
    } catch (const std::exception&) {
      return nullptr;
    }
  };
  check(graft_engine_save_bytes(handle(), allocate, &plan, &error), error);
  return {kEngineFormat, TORCH_VERSION, settings_.print(), plan};
}

std::string Engine::plan_bytes() const {
  const at::Tensor plan = std::get<3>(state());
  return {static_cast<const char*>(plan.const_data_ptr()), static_cast<size_t>(plan.numel())};
}

std::vector<std::optional<int64_t>> Engine::keep_weights(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> plain;
  std::vector<graft_tensor> given;
  for (const at::Tensor& tensor : tensors) {
    plain.push_back(tensor.detach().cpu().contiguous());
    graft_tensor described = {};
    described.struct_size = sizeof described;
    described.dtype = element_type(tensor.scalar_type());
    described.rank = static_cast<int32_t>(tensor.dim());
    described.shape = plain.back().sizes().data();
    described.data = const_cast<void*>(plain.back().const_data_ptr());
    given.push_back(described);
  }
  std::vector<std::string> places(tensors.size());
  const auto take = [](void* context, size_t index, const char* place) {
    (*static_cast<std::vector<std::string>*>(context))[index] = place;
  };
  graft_error error;
  check(graft_host_find_weights(handle(), given.data(), given.size(), &places, take, &error), error);
  std::vector<std::optional<int64_t>> kept(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (places[i].empty()) continue;
    kept[i] = static_cast<int64_t>(settings_.weights.size());
    settings_.weights.push_back({tensors[i].scalar_type(), tensors[i].sizes().vec(), places[i]});
  }
  return kept;
}

at::Tensor Engine::weight(int64_t index) const {
  TORCH_CHECK_VALUE(0 <= index && index < static_cast<int64_t>(settings_.weights.size()),
                    "graft::engine_weight: ", settings_.name, " gives no weight ", index);
  const NativeWeight& wanted = settings_.weights[static_cast<size_t>(index)];
  at::Tensor made = at::empty(wanted.sizes, wanted.type);
  graft_tensor described = {};
  described.struct_size = sizeof described;
  described.dtype = element_type(wanted.type);
  described.rank = static_cast<int32_t>(made.dim());
  described.shape = made.sizes().data();
  described.data = made.data_ptr();
  graft_error error;
  check(graft_host_read_weight(handle(), wanted.place.c_str(), &described, &error), error);
  return made.to(c10::Device(settings_.device));
}

std::string Engine::publish() const {
  std::string name;
  graft_error error;
  const auto take = [](void* context, const char* given) { *static_cast<std::string*>(context) = given; };
  check(graft_host_publish_engine(handle(), &name, take, &error), error);
  return name;
}

std::string Engine::quantization() const {
  const std::string text = graft_engine_quantization_text(handle());
  return text.empty() ? text : settings_.name + " is of int8:\n" + text + "\n";
}

std::vector<std::string> Engine::input_names() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < graft_engine_input_count(handle()); ++i) {
    names.emplace_back(graft_engine_input(handle(), i)->name);
  }
  return names;
}

std::string Engine::describe_input(size_t index) const {
  const graft_value_info* info = graft_engine_input(handle(), index);
  std::string text = "graft::execute_engine: input '" + std::string(info ? info->name : "?") + "' of " + settings_.name;
  if (index < settings_.readers.size() && !settings_.readers[index].empty()) {
    text += ", which " + settings_.readers[index] + " reads,";
  }
  return text;
}

graft_tensor Engine::view_of(const at::Tensor& tensor, size_t index) const {
  const graft_value_info* info = graft_engine_input(handle(), index);
  const int32_t type = element_type(tensor.scalar_type());
  TORCH_CHECK_VALUE(type != 0 && tensor.layout() == c10::kStrided, describe_input(index),
                    " is no dense tensor of a type that Graft has, but ", tensor.toString());
  TORCH_CHECK_VALUE(!info || info->dtype == type, describe_input(index), " has type ", tensor.scalar_type(),
                    " and the engine was made for ",
                    info && scalar_type(info->dtype) ? c10::toString(*scalar_type(info->dtype)) : "another",
                    ": convert the tensor with to(), or compile the module for this dtype");
  const bool on_gpu = settings_.device != "cpu";
  TORCH_CHECK_VALUE(on_gpu ? tensor.is_cuda() : tensor.is_cpu(), describe_input(index), " lies on ",
                    tensor.device().str(), ", the engine was made for ", settings_.device,
                    ": move the tensor, or compile the module with the option device");
  const c10::Device device(settings_.device);
  TORCH_CHECK_VALUE(!device.has_index() || device == tensor.device(), describe_input(index), " lies on ",
                    tensor.device().str(), ", the engine was made for ", settings_.device, ": move the tensor");
  return {.struct_size = sizeof(graft_tensor),
          .name = nullptr,
          .dtype = type,
          .rank = static_cast<int32_t>(tensor.dim()),
          .shape = tensor.sizes().data(),
          .strides = tensor.strides().data(),
          .data = const_cast<void*>(tensor.const_data_ptr()),
          .bytes = 0,
          .device = on_gpu ? GRAFT_CUDA : GRAFT_HOST};
}

/// Data may have decided of what type a tensor is that the module computes.
bool Engine::may_refuse_type(const at::Tensor& tensor, size_t index) const {
  const graft_value_info* info = graft_engine_input(handle(), index);
  const bool computed = std::find(settings_.computed.begin(), settings_.computed.end(), static_cast<int64_t>(index)) !=
                        settings_.computed.end();
  return has_native() && computed && info && info->dtype != element_type(tensor.scalar_type());
}

void Engine::count_refusal(const char* message) {
  std::call_once(refused_,
                 [&] { refusal_ = "inputs outside of what its engine was made for: " + std::string(message); });
  graft_host_count_fallback(settings_.name.c_str(), refusal_.c_str());
}

std::vector<at::Tensor> Engine::run(const std::vector<at::Tensor>& inputs) {
  const bool on_gpu = settings_.device != "cpu";
  std::vector<at::Tensor> plain;
  std::vector<graft_tensor> given;
  plain.reserve(inputs.size()), given.reserve(inputs.size());
  for (const at::Tensor& input : inputs) {
    plain.push_back(input.resolve_conj().resolve_neg());
    if (may_refuse_type(plain.back(), given.size())) {
      count_refusal((describe_input(given.size()) + " has type " + c10::toString(input.scalar_type())).c_str());
      return {};
    }
    if (on_gpu) plain.back() = plain.back().contiguous();  // as engines want tensors there
    given.push_back(view_of(plain.back(), given.size()));
  }
  Outputs outputs{.tensors = std::vector<at::Tensor>(graft_engine_output_count(handle())),
                  .device = plain.empty() ? c10::Device(settings_.device) : plain[0].device(),
                  .failure = {}};
  std::vector<graft_tensor> wanted(outputs.tensors.size());
  for (graft_tensor& tensor : wanted) {
    tensor.struct_size = sizeof tensor;
    tensor.device = on_gpu ? GRAFT_CUDA : GRAFT_HOST;
  }
  const auto session = sessions_.take();
  graft_error error;
  if (on_gpu) {
    void* stream = native_stream(outputs.device);
    check(graft_session_set_stream(session->handle(), stream ? stream : kLegacyStream, &error), error);
  }
  const graft_allocator allocator{allocate_output, &outputs};
  const graft_status status = graft_session_run(session->handle(), given.data(), given.size(), wanted.data(),
                                                wanted.size(), &allocator, &error);
  TORCH_CHECK(outputs.failure.empty(), outputs.failure);
  if (status == GRAFT_INVALID_ARGUMENT && has_native()) {
    count_refusal(error.message);
    return {};
  }
  TORCH_CHECK_VALUE(status != GRAFT_INVALID_ARGUMENT, given.empty() ? settings_.name : describe_input(0),
                    " is refused: ", error.message, ": give other sizes, or compile the module for these");
  check(status, error);
  return std::move(outputs.tensors);
}

}  // namespace graft::torchscript
