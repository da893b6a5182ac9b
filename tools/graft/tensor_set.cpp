// SPDX-License-Identifier: Apache-2.0
#include "tensor_set.h"


#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/available_memory.h"
#include "base/environment.h"
#include "base/error.h"
#include "console.h"
#include "model_options.h"
#include "output.h"
#include "random_tensor.h"
#include "runtime/bind.h"
#include "runtime/device_code.h"
#include "value_json.h"

namespace graft {
namespace {

size_t find_name(const std::vector<std::string>& names, const std::string& name, const char* what,
                 const std::string& where) {
  const auto found = std::find(names.begin(), names.end(), name);
  GRAFT_USER_CHECK(found != names.end(), kInvalidArgument,
                   fmt::format("there is no {} '{}'; there are {}", what, name, fmt::join(names, ", ")), where);
  return static_cast<size_t>(found - names.begin());
}

std::vector<std::string> names_of(const Engine& engine, const std::vector<int>& tensors) {
  std::vector<std::string> names;
  for (const int tensor : tensors) names.push_back(engine.tensors[tensor].name);
  return names;
}

size_t find_input(const Engine& engine, const std::string& name, const std::string& where) {
  return find_name(names_of(engine, engine.inputs), name, "input", where);
}

std::string describe(const PendingTensor& tensor) {
  return fmt::format("{}[{}]", name_of(tensor.type), fmt::join(tensor.shape, ", "));
}

/// What `make` gives; where there is no memory for it, the error says what it was for.
template <class Make>
TensorData naming(const std::string& where, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kOutOfMemory) throw;
    throw Error(error.kind(), error.message(), where);
  }
}

/// The handles among the inputs of a run that hold() gives.
PendingTensor place_of(const std::vector<int64_t>& shape) {
  return {DType::kUint64, shape, 8 * checked_element_count(DType::kUint64, shape),
          [shape] { return TensorData::zeros(DType::kUint64, shape); }};
}

/// Refuses what the engine would refuse, by types and shapes alone.
void check_shapes(const Engine& engine, const std::vector<PendingTensor>& tensors) {
  std::byte somewhere{};
  std::vector<BufferView> views;
  for (const PendingTensor& tensor : tensors) views.push_back({&somewhere, tensor.type, tensor.shape, {}});
  bind_inputs(engine, views);
}

/// Refuses inputs that this machine has no memory for.
void check_memory(const Engine& engine, const std::vector<PendingTensor>& tensors) {
  const auto available = static_cast<double>(available_memory());
  double total = 0;
  size_t largest = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    total += static_cast<double>(tensors[i].bytes);
    if (tensors[i].bytes > tensors[largest].bytes) largest = i;
  }
  if (total <= available) return;
  const std::string& name = engine.tensors[engine.inputs[largest]].name;
  throw Error(ErrorKind::kOutOfMemory,
              fmt::format("the inputs take {} ('{}' alone, {}, takes {}), and {} of memory are available; choose "
                          "smaller sizes with --size, or give smaller files", bytes_text(total), name,
                          describe(tensors[largest]), bytes_text(static_cast<double>(tensors[largest].bytes)),
                          bytes_text(available)), "inputs");
}

}  // namespace

void InputOptions::add_to(Command command) {
  command
      .add_option("-i,--input", inputs_,
                  "FILE.npz with tensors by name, NAME=FILE.npy, or FILE.npy in the order of the inputs;\n"
                  "strings, sequences and maps as NAME=FILE.json;\n"
                  "bf16, 8-bit floats and narrower types as ml_dtypes saves them (docs/ARRAYS.md);\n"
                  "an input without a file is random: floats are normal, integers of 32 and 64 bits are\n"
                  "0 or 1 (valid as indices), narrower ones any value")
      .type_name("FILE")
      .group("Inputs");
  command.add_option("--size", sizes_, "set a dynamic dimension of the random inputs: batch=4; may be repeated")
      .type_name("NAME=N")
      .group("Inputs");
  command.add_option("--seed", seed_, "seed of the random inputs (GRAFT_SEED, else 1)")
      .type_name("UINT")
      .group("Inputs");
}

std::vector<std::string> InputOptions::files() const {
  std::vector<std::string> paths;
  for (const std::string& text : inputs_) {
    const size_t equals = text.ends_with(".npz") ? text.npos : text.find('=');
    paths.push_back(equals == text.npos ? text : text.substr(equals + 1));
  }
  return paths;
}

std::vector<PendingTensor> InputOptions::open_files(const Engine& engine) const {
  std::vector<PendingTensor> tensors(engine.inputs.size());
  const auto wanted = [&](size_t input) { return engine.tensors[engine.inputs[input]].type; };
  size_t position = 0;
  for (const std::string& text : inputs_) {
    const size_t equals = text.find('=');
    if (text.ends_with(".npz") && equals == text.npos) {
      const NpzFile file(text);
      for (const std::string& name : file.names()) {
        const size_t input = find_input(engine, name, text);
        tensors[input] = file.find(name, wanted(input));
      }
    } else if (equals != text.npos) {
      const size_t input = find_input(engine, text.substr(0, equals), "--input");
      if (const std::string& type = engine.tensors[engine.inputs[input]].handles; !type.empty()) {
        GRAFT_USER_CHECK(takes_values_, kUnsupported,
                         fmt::format("it is {}, which graft run alone takes", type), fmt::format("input '{}'", text));
        held_[input] = {type == "str", read_value(text.substr(equals + 1), type)};
        tensors[input] = place_of(type == "str" ? held_.at(input).value.tensor().shape() : std::vector<int64_t>());
        continue;
      }
      tensors[input] = open_npy(text.substr(equals + 1), wanted(input));
    } else {
      GRAFT_USER_CHECK(position < tensors.size(), kInvalidArgument,
                       fmt::format("more files than the engine has inputs ({})", tensors.size()), text);
      tensors[position] = open_npy(text, wanted(position));
      ++position;
    }
  }
  return tensors;
}

uint64_t InputOptions::seed() const {
  if (seed_.empty()) return environment().seed;
  uint64_t value = 0;
  const char* const end = seed_.data() + seed_.size();
  const auto read = std::from_chars(seed_.data(), end, value);
  if (read.ec == std::errc() && read.ptr == end) return value;
  throw UsageError(fmt::format("--seed: '{}' is not a whole number from 0 to {}", seed_, UINT64_MAX));
}

/// An input without a file; a size that nothing settles is the usual one.
PendingTensor InputOptions::random_input(const Engine& engine, size_t number) const {
  const EngineTensor& input = engine.tensors[engine.inputs[number]];
  GRAFT_USER_CHECK(input.handles.empty(), kUnsupported,
                   fmt::format("it is {}, of which there are no random ones: give {}=FILE.json", input.handles,
                               input.name),
                   fmt::format("input '{}'", input.name));
  std::set<std::string, std::less<>> symbols;
  for (const Size& size : input.shape) size.collect_symbols(symbols);
  for (const std::string& symbol : symbols) {
    const auto range = engine.symbols.find(symbol);
    bindings_.emplace(symbol, range != engine.symbols.end() && range->second.max > 0 ? range->second.opt : 1);
  }
  const std::vector<int64_t> shape = concrete_shape(input, bindings_);
  const int64_t elements = checked_element_count(input.type, shape, fmt::format("input '{}'", input.name));
  return {input.type, shape, packed_bytes(input.type, elements),
          [type = input.type, shape, seed = seed() + 7919 * number] { return random_tensor(type, shape, seed); }};
}

/// All inputs, of files and random ones, before their elements are there.
std::vector<PendingTensor> InputOptions::open_all(const Engine& engine) const {
  seed();  // a wrong one is told where it is not needed, too
  bindings_ = chosen_sizes(engine, sizes_);
  std::vector<PendingTensor> pending = open_files(engine);
  // Sizes that files settle hold for the random inputs beside them.
  for (size_t i = 0; i < pending.size(); ++i) {
    const EngineTensor& input = engine.tensors[engine.inputs[i]];
    if (!pending[i] || pending[i].shape.size() != input.shape.size()) continue;
    for (size_t axis = 0; axis < input.shape.size(); ++axis) {
      const auto symbol = input.shape[axis].as_symbol();
      if (!symbol) continue;
      const auto [known, fresh] = bindings_.emplace(*symbol, pending[i].shape[axis]);
      GRAFT_USER_CHECK(fresh || known->second == pending[i].shape[axis], kInvalidArgument,
                       fmt::format("axis {} is {} in its file, and '{}' is {} by --size or another file", axis,
                                   pending[i].shape[axis], *symbol, known->second),
                       fmt::format("input '{}'", input.name));
    }
  }
  said_ = bindings_;
  for (size_t i = 0; i < pending.size(); ++i) {
    if (!pending[i]) pending[i] = random_input(engine, i);
  }
  check_shapes(engine, pending);
  return pending;
}

Bindings InputOptions::check(const Engine& engine) const {
  if (sizes_.empty() && inputs_.empty() && seed_.empty()) return {};
  open_all(engine);
  return said_;
}

std::vector<TensorData> InputOptions::read(const Engine& engine) const {
  const std::vector<PendingTensor> pending = open_all(engine);
  check_memory(engine, pending);
  std::vector<TensorData> tensors;
  for (size_t i = 0; i < pending.size(); ++i) {
    tensors.push_back(naming(fmt::format("input '{}'", engine.tensors[engine.inputs[i]].name), pending[i].load));
  }
  return tensors;
}

void InputOptions::hold(Session& session, std::vector<TensorData>& inputs) const {
  if (held_.empty()) return;
  session.start_values();
  for (const auto& [input, held] : held_) {
    if (!held.is_text) {
      inputs[input].write_integer(0, static_cast<int64_t>(session.hold(held.value.copied())));
      continue;
    }
    const std::vector<std::string>& texts = held.value.tensor().strings();
    for (size_t i = 0; i < texts.size(); ++i) {
      inputs[input].write_integer(static_cast<int64_t>(i), static_cast<int64_t>(session.hold_text(texts[i])));
    }
  }
}

std::vector<BufferView> views_of(std::vector<TensorData>& tensors) {
  std::vector<BufferView> views;
  for (TensorData& tensor : tensors) {
    views.push_back({const_cast<std::byte*>(tensor.bytes().data()), tensor.type(), tensor.shape(), {}});
  }
  return views;
}

OutputBuffers::OutputBuffers(const Engine& engine)
    : names_(names_of(engine, engine.outputs)),
      selected_(engine.outputs.size()),
      results_(engine.outputs.size()),
      views_(engine.outputs.size()) {
  std::iota(selected_.begin(), selected_.end(), size_t{0});
  for (const int output : engine.outputs) handles_.push_back(engine.tensors[output].handles);
}

bool OutputBuffers::has_values() const {
  return std::any_of(selected_.begin(), selected_.end(), [&](size_t output) { return !handles_[output].empty(); });
}

std::vector<std::pair<std::string, DynamicValue>> OutputBuffers::values(const Session& session) const {
  std::vector<std::pair<std::string, DynamicValue>> named;
  for (const size_t output : selected_) {
    const TensorData& result = results_[output];
    if (handles_[output].empty()) {
      named.emplace_back(names_[output], result);
    } else if (handles_[output] != "str") {
      named.emplace_back(names_[output], session.value(static_cast<uint64_t>(result.read_integer(0))));
    } else {
      std::vector<std::string> texts;
      for (const uint64_t handle : result.as<uint64_t>()) texts.push_back(session.text(handle));
      named.emplace_back(names_[output], TensorData::from_strings(result.shape(), std::move(texts)));
    }
  }
  return named;
}

void OutputBuffers::select(const std::vector<std::string>& names) {
  selected_.clear();
  for (const std::string& name : names) {
    const size_t output = find_name(names_, name, "output", "--outputs");
    if (std::find(selected_.begin(), selected_.end(), output) == selected_.end()) selected_.push_back(output);
  }
}

void* OutputBuffers::allocate(void* context, int output, DType type, std::span<const int64_t> shape, size_t) {
  auto& self = *static_cast<OutputBuffers*>(context);
  TensorData& result = self.results_[output];
  const std::vector<int64_t> wanted(shape.begin(), shape.end());
  if (result.type() != type || result.shape() != wanted) {
    result = naming(fmt::format("output '{}'", self.names_[static_cast<size_t>(output)]),
                    [&] { return TensorData::zeros(type, wanted); });
  }
  return result.mutable_bytes().data();
}

void OutputBuffers::run(Session& session, std::vector<TensorData>& inputs) {
  const std::vector<BufferView> given = views_of(inputs);
  for (BufferView& view : views_) view = {};
  const Status status = session.run(given, views_, allocate, this);
  if (!status.ok()) throw Error(status.kind(), status.message());
}

NamedTensors OutputBuffers::tensors() const {
  NamedTensors named;
  for (const size_t output : selected_) {
    if (handles_[output].empty()) named.emplace_back(names_[output], results_[output]);
  }
  return named;
}

DeviceTensors::DeviceTensors(const LoadedEngine& engine, std::vector<TensorData>& inputs)
    : stream_(engine.device->device->make_stream()),
      inputs_(views_of(inputs)),
      outputs_(engine.engine->outputs.size()) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::span<const std::byte> bytes = inputs[i].bytes();
    inputs_[i].data = stream_->allocate(static_cast<int64_t>(bytes.size()));
    inputs_[i].on_device = true;
    stream_->upload(inputs_[i].data, bytes.data(), bytes.size());
  }
}

DeviceTensors::~DeviceTensors() {
  for (const BufferView& input : inputs_) stream_->release(input.data);
}

void DeviceTensors::run(Session& session) {
  for (BufferView& output : outputs_) {
    output.data = nullptr;
    output.on_device = true;
  }
  Status status = session.run(inputs_, outputs_);
  if (status.ok()) status = session.wait();
  if (!status.ok()) throw Error(status.kind(), status.message());
}

namespace {

/// The mean of so many times, in milliseconds.
double mean_time(int repetitions, const std::function<void()>& work) {
  work();  // memory that is touched for the first time costs more
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repetitions; ++i) work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / repetitions;
}

}  // namespace

double DeviceTensors::time_uploads(const std::vector<TensorData>& inputs, int repetitions) {
  return mean_time(repetitions, [&] {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::span<const std::byte> bytes = inputs[i].bytes();
      stream_->upload(inputs_[i].data, bytes.data(), bytes.size());
    }
    stream_->wait();
  });
}

double DeviceTensors::time_downloads(int repetitions) {
  std::vector<std::vector<std::byte>> places;
  for (const BufferView& output : outputs_) {
    const int64_t elements = checked_element_count(output.type, output.shape);
    places.emplace_back(static_cast<size_t>(packed_bytes(output.type, elements)));
  }
  return mean_time(repetitions, [&] {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      stream_->download(places[i].data(), outputs_[i].data, places[i].size());
    }
  });
}

void check_path_for_tensors(const std::string& path, size_t count) {
  GRAFT_USER_CHECK(path == "-" || path.ends_with(".npz") || (path.ends_with(".npy") && count == 1), kInvalidArgument,
                   fmt::format("{} outputs go into an .npz file, one alone also into .npy", count), path);
}

void write_tensors(const std::string& path, const NamedTensors& tensors) {
  check_path_for_tensors(path, tensors.size());
  if (path == "-" || path.ends_with(".npz")) return write_npz(output_path(path), tensors);
  write_npy(path, tensors[0].second);
}

}  // namespace graft
