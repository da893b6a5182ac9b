// SPDX-License-Identifier: Apache-2.0
// Steps of plain C++: tensors of the run become values, and what a kernel gives becomes tensors of the run.
#include <cstring>

#include <fmt/format.h>

#include "runtime/bind.h"
#include "runtime/session_state.h"

namespace graft {
namespace {

constexpr int64_t kHandleBytes = sizeof(uint64_t);

}  // namespace

/// Strings of constants are handles in memory of the session; sessions of bodies add theirs to the same table.
void Session::State::open_texts() {
  for (size_t t = 0; t < engine->tensors.size(); ++t) {
    const EngineTensor& tensor = engine->tensors[t];
    if (tensor.storage != Storage::kConstant || tensor.index < 0 || tensor.handles.empty()) continue;
    const TensorData& constant = engine->constants[tensor.index];
    if (constant.type() != DType::kString) continue;
    std::vector<uint64_t> handles;
    for (const std::string& text : constant.strings()) handles.push_back(table->add_text(text));
    Buffer& place = own[t];
    const auto bytes = static_cast<int64_t>(handles.size()) * kHandleBytes;
    memory[t] = place.reserve(bytes, session_memory, "the strings of ", tensor.name);
    if (stream) stream->upload(memory[t], handles.data(), static_cast<size_t>(bytes));
    if (!stream && bytes > 0) std::memcpy(memory[t], handles.data(), static_cast<size_t>(bytes));
  }
}

/// A tensor's bytes in the host's memory: where they are, or in `copy`.
const void* Session::State::host_bytes(int tensor, int64_t bytes, BudgetVector<char>& copy) const {
  if (!stream) return pointer(tensor);
  copy.resize(static_cast<size_t>(bytes));
  stream->download(copy.data(), pointer(tensor), static_cast<size_t>(bytes));
  return copy.data();
}

DynamicValue Session::State::read_value(int tensor, const Bindings& bindings, TextMeter& meter) const {
  const EngineTensor& from = engine->tensors[tensor];
  std::vector<int64_t> shape = concrete_shape(from, bindings);
  const int64_t bytes = concrete_bytes(from, bindings);
  BudgetVector<char> copy;
  const void* data = host_bytes(tensor, bytes, copy);
  if (from.handles.empty()) {
    const std::span given(static_cast<const std::byte*>(data), static_cast<size_t>(bytes));
    return stream ? TensorData::from_bytes(from.type, std::move(shape), given)
                  : TensorData::borrow(from.type, std::move(shape), given, nullptr);
  }
  const auto handle = [&](int64_t i) {
    uint64_t value = 0;
    std::memcpy(&value, static_cast<const char*>(data) + i * kHandleBytes, sizeof value);
    return value;
  };
  if (from.handles != "str") return table->value(handle(0));
  std::vector<std::string> texts;
  for (int64_t i = 0; i < bytes / kHandleBytes; ++i) {
    texts.push_back(table->text(handle(i)));
    meter.take(texts.back().size());
  }
  return TensorData::from_strings(std::move(shape), std::move(texts));
}

/// Checks that a kernel gave what was inferred, and binds the sizes that nobody knew.
void Session::State::write_value(int step, int tensor, DynamicValue value, const Bindings& bindings,
                                 Bindings* counted) {
  const EngineTensor& to = engine->tensors[tensor];
  const bool is_text = to.handles == "str", is_dynamic = !to.handles.empty() && !is_text;
  std::vector<uint64_t> handles;
  const void* source = nullptr;
  if (is_dynamic) {
    handles.push_back(table->add(std::move(value)));
    source = handles.data();
  } else {
    GRAFT_USER_CHECK(value.kind() == DynamicValue::Kind::kTensor, kInvalidArgument,
                     fmt::format("its result '{}' is {}, not a tensor", to.name, describe(value)), "");
    const TensorData& data = value.tensor();
    GRAFT_USER_CHECK(data.type() == (is_text ? DType::kString : to.type), kInvalidArgument,
                     fmt::format("its result '{}' is {}, not of {} as was found when compiling", to.name,
                                 describe(data), is_text ? "str" : name_of(to.type)), "");
    check_result(step, tensor, data.shape(), bindings, counted);
    if (is_text) {
      for (const std::string& text : data.strings()) handles.push_back(table->add_text(text));
      source = handles.data();
    } else {
      source = data.bytes().data();
    }
  }
  const int64_t bytes = concrete_bytes(to, counted ? *counted : bindings);
  if (engine->has_computed_symbols) {
    memory[tensor] = own[tensor].reserve(bytes, session_memory, "tensor ", to.name);
  }
  if (bytes == 0) return;
  if (stream) {
    stream->upload(memory[tensor], source, static_cast<size_t>(bytes));
  } else {
    std::memcpy(memory[tensor], source, static_cast<size_t>(bytes));
  }
}

void Session::State::run_host(int index, const Bindings& bindings, Bindings* counted) {
  const EngineStep& step = engine->steps[index];
  try {
    TextMeter meter;  // of the copies that the kernel reads
    std::vector<DynamicValue> inputs;
    for (const int position : step.host->inputs) {
      inputs.push_back(position < 0 ? DynamicValue() : read_value(step.tensors[position], bindings, meter));
    }
    std::vector<DynamicValue> results = loaded->host.at(index)(inputs);
    for (size_t o = 0; o < step.host->outputs.size(); ++o) {
      const int position = step.host->outputs[o];
      if (position < 0) continue;
      GRAFT_USER_CHECK(o < results.size(), kInternal, fmt::format("its kernel gave {} results", results.size()), "");
      write_value(index, result_tensor(index, static_cast<size_t>(position)), std::move(results[o]), bindings, counted);
    }
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(), fmt::format("node '{}' ({})", step.name, step.host->op));
  }
}

}  // namespace graft
