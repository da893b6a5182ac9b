// SPDX-License-Identifier: Apache-2.0
#include "request.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "failure.h"
#include "text_elements.h"
#include "watch.h"

namespace graft::triton {
namespace {

/// The position of a name; most requests have their tensors in the engine's order, where it is looked at first.
size_t position_of(const std::vector<Port>& ports, std::string_view name, size_t guess) {
  if (guess < ports.size() && ports[guess].name == name) return guess;
  return static_cast<size_t>(std::ranges::find(ports, name, &Port::name) - ports.begin());
}

/// Finds where the elements are; several pieces are copied into one.
void find_elements(TRITONBACKEND_Input* input, uint32_t pieces, bool gpu, InputData& data) {
  data.data = nullptr, data.on_gpu = false;
  if (pieces > 1) data.gathered.resize(data.bytes);
  size_t filled = 0;
  for (uint32_t i = 0; i < pieces; ++i) {
    const void* piece = nullptr;
    uint64_t bytes = 0;
    MemoryType memory = gpu && pieces == 1 ? MemoryType::kGpu : MemoryType::kCpu;
    int64_t device = 0;
    check(TRITONBACKEND_InputBuffer(input, i, &piece, &bytes, &memory, &device));
    data.on_gpu = memory == MemoryType::kGpu;
    if (data.on_gpu && (!gpu || pieces > 1)) {
      throw Error(ErrorKind::kUnsupported, "its elements lie in GPU memory, and " +
                                               std::string(gpu ? "in several pieces" : "the model runs on a CPU") +
                                               ": send them, or use system shared memory");
    }
    if (pieces == 1) {
      data.data = static_cast<const std::byte*>(piece);
      filled = bytes;
      continue;
    }
    if (bytes > data.bytes - filled) throw Error(ErrorKind::kInvalidArgument, "its pieces are more than its bytes");
    std::memcpy(data.gathered.data() + filled, piece, bytes);
    filled += bytes;
    data.data = data.gathered.data();
  }
  if (filled != data.bytes) {
    throw Error(ErrorKind::kInvalidArgument, "it has " + std::to_string(filled) + " bytes of " +
                                                 std::to_string(data.bytes));
  }
}

uint64_t elements_of(const InputData& data) {
  uint64_t elements = 1;
  for (uint32_t i = 0; i < data.rank; ++i) elements *= static_cast<uint64_t>(data.shape[i]);
  return elements;
}

void read_elements(TRITONBACKEND_Input* input, uint32_t pieces, const Port& port, bool gpu, InputData& data) {
  try {
    find_elements(input, pieces, gpu, data);
    const uint64_t elements = elements_of(data);
    if (port.holds_strings()) {
      read_texts({data.data, data.bytes}, elements, data.texts);
    } else if (data.bytes != elements * port.type->bytes) {
      throw Error(ErrorKind::kInvalidArgument, "it has " + std::to_string(data.bytes) + " bytes, and its shape means " +
                                                   std::to_string(elements * port.type->bytes));
    }
  } catch (const Error& failure) {
    throw Error(failure.kind(), "input '" + port.name + "': " + failure.what());
  }
}

}  // namespace

void Request::read(TRITONBACKEND_Request* request, const Signature& signature, bool batched, bool gpu) {
  handle = request, response = nullptr;
  rows = 1, answered = false, succeeded = false;
  check(TRITONBACKEND_ResponseNew(&response, request));
  if (is_cancelled(request)) throw Error(ErrorKind::kCancelled, "the request was cancelled");
  check(TRITONBACKEND_InferenceRequestTimeoutMicroseconds(request, &timeout_us));
  inputs.resize(signature.inputs.size());
  for (InputData& input : inputs) input.shape = nullptr;
  uint32_t count = 0;
  check(TRITONBACKEND_RequestInputCount(request, &count));
  for (uint32_t i = 0; i < count; ++i) read_input(i, signature, gpu);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].shape) {
      throw Error(ErrorKind::kInvalidArgument, "input '" + signature.inputs[i].name + "' is missing");
    }
  }
  if (batched) rows = inputs.front().shape[0];
  read_wanted(signature, gpu);
}

void Request::read_input(uint32_t index, const Signature& signature, bool gpu) {
  TRITONBACKEND_Input* input = nullptr;
  const char* name = nullptr;
  DataType type{};
  const int64_t* shape = nullptr;
  uint32_t rank = 0, pieces = 0;
  uint64_t bytes = 0;
  check(TRITONBACKEND_RequestInputByIndex(handle, index, &input));
  check(TRITONBACKEND_InputProperties(input, &name, &type, &shape, &rank, &bytes, &pieces));
  const size_t position = position_of(signature.inputs, name, index);
  if (position == inputs.size()) {
    throw Error(ErrorKind::kInvalidArgument, std::string("the model has no input '") + name + "'");
  }
  const Port& port = signature.inputs[position];
  if (type != port.type->server || rank != std::max<size_t>(port.axes.size(), 1)) {
    throw Error(ErrorKind::kInvalidArgument, "input '" + port.name + "' has another type or number of axes than the "
                                             "model's");
  }
  InputData& data = inputs[position];
  data.shape = shape, data.rank = rank, data.bytes = bytes;
  read_elements(input, pieces, port, gpu, data);
}

void Request::read_wanted(const Signature& signature, bool gpu) {
  uint32_t count = 0;
  wanted.assign(signature.outputs.size(), Wanted::kNo);
  check(TRITONBACKEND_RequestOutputCount(handle, &count));
  for (uint32_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    check(TRITONBACKEND_RequestOutputName(handle, i, &name));
    const size_t position = position_of(signature.outputs, name, i);
    if (position == wanted.size()) {
      throw Error(ErrorKind::kInvalidArgument, std::string("the model has no output '") + name + "'");
    }
    MemoryType memory = MemoryType::kCpu;
    if (gpu) {
      int64_t device = 0;
      size_t bytes = 0;
      ignore(TRITONBACKEND_RequestOutputBufferProperties(handle, name, &bytes, &memory, &device));
    }
    wanted[position] = memory == MemoryType::kGpu ? Wanted::kOnGpu : Wanted::kOnHost;
  }
}

void Request::answer(TRITONSERVER_Error* error) {
  answered = true, succeeded = error == nullptr;
  if (response) ignore(TRITONBACKEND_ResponseSend(response, kFinalResponse, error));
  response = nullptr;
  if (error) TRITONSERVER_ErrorDelete(error);
}

bool Request::uses_gpu_memory() const {
  return std::ranges::any_of(inputs, &InputData::on_gpu) ||
         std::ranges::find(wanted, Wanted::kOnGpu) != wanted.end();
}

bool can_join(const Request& first, const Request& second) {
  if (first.uses_gpu_memory() || second.uses_gpu_memory()) return false;
  for (size_t i = 0; i < first.inputs.size(); ++i) {
    const InputData &a = first.inputs[i], &b = second.inputs[i];
    if (!std::equal(a.shape + 1, a.shape + a.rank, b.shape + 1)) return false;
  }
  return true;
}

}  // namespace graft::triton
