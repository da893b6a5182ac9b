// SPDX-License-Identifier: Apache-2.0
// Running on a device with memory of its own: tensors there, sizes and errors here.
#include <fmt/format.h>

#include "runtime/bind.h"
#include "runtime/session_state.h"
#include "runtime/strided_copy.h"

namespace graft {

/// The caller's input in the device's memory.
void* Session::State::upload_input(size_t i, const BufferView& view) {
  const int64_t bytes = dense_bytes(view);
  const void* from = view.data;
  if (needs_copy(view)) {
    host_copy.resize(static_cast<size_t>(bytes));
    copy_to_dense(view, host_copy.data());
    from = host_copy.data();
  }
  void* to = staging_in[i].reserve(bytes, stream.get(), "an input");
  stream->upload(to, from, static_cast<size_t>(bytes));
  return to;
}

/// Outputs are on the host when a run returns; an error that a kernel found is known by then.
void Session::State::download_outputs(std::span<BufferView> outputs) {
  read_status();
  GRAFT_USER_CHECK(status[0] == 0, kInvalidArgument, fmt::format("index {} is out of range", status[1]), "run");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto bytes = static_cast<size_t>(dense_bytes(outputs[i]));
    if (!needs_copy(outputs[i])) {
      stream->download(outputs[i].data, output_data[i], bytes);
      continue;
    }
    host_copy.resize(bytes);
    stream->download(host_copy.data(), output_data[i], bytes);
    copy_from_dense(host_copy.data(), outputs[i]);
  }
}

/// An element that a later size depends on.
int64_t Session::State::read_computed(int tensor, int64_t element) {
  const DType type = engine->tensors[tensor].type;
  if (!stream) return read_element(pointer(tensor), type, element);
  int64_t value = 0;
  const int64_t bytes = bit_width(type) / 8;
  stream->download(&value, static_cast<const char*>(pointer(tensor)) + element * bytes, static_cast<size_t>(bytes));
  return read_element(&value, type, 0);
}

void Session::State::launch_on_device(int index, const ReadyStep& ready, const int64_t* sizes) {
  if (ready.grid == 0) return;
  const EngineStep& step = engine->steps[index];
  const size_t count = engine->kernels[step.kernel].sizes.size();
  parameters.clear();
  for (size_t a = 0; a < step.tensors.size(); ++a) parameters.push_back(&buffers[a]);
  for (size_t k = 0; k < count; ++k) parameters.push_back(const_cast<int64_t*>(sizes + k));
  void* where = device_status.data();
  parameters.push_back(&where);
  stream->launch(loaded->device->kernels[step.kernel], ready.grid, parameters.data());
}

/// A step without a kernel: its tensors come to the host and its results go back.
void Session::State::interpret_on_host(int index, const Bindings& bindings) {
  const EngineStep& step = engine->steps[index];
  Bindings sizes = bindings;
  if (!step.count_symbol.empty()) sizes.emplace(step.count_symbol, compact_bound(*engine, step, bindings));
  std::vector<std::vector<char>> copies;
  std::vector<void*> given;
  for (size_t a = 0; a < step.tensors.size(); ++a) {
    const auto bytes = static_cast<size_t>(engine->tensors[step.tensors[a]].bytes.evaluate(sizes));
    copies.emplace_back(bytes);
    given.push_back(copies.back().data());
    if (a < static_cast<size_t>(step.input_count)) stream->download(given[a], buffers[a], bytes);
  }
  interpret(index, given, bindings);
  for (size_t a = static_cast<size_t>(step.input_count); a < given.size(); ++a) {
    stream->upload(memory[roots[step.tensors[a]]], given[a], copies[a].size());
  }
}

double Session::State::time_steps(int repetitions) {
  GRAFT_USER_CHECK(stream && last && !engine->has_computed_symbols, kInvalidArgument,
                   "only the steps of a finished run on a device, with sizes known before it, can be replayed", "run");
  for (const EngineStep& step : engine->steps) {
    GRAFT_USER_CHECK(step.kind != StepKind::kInterpreter, kInvalidArgument, "it runs in the interpreter",
                     fmt::format("node '{}'", step.name));
  }
  return stream->time([&] { run_planned(*last); }, repetitions);
}

void Session::State::clear_status() {
  device_status.reserve(sizeof status, stream.get(), "the status of a run");
  stream->clear(device_status.data(), sizeof status);
}

void Session::State::read_status() { stream->download(status, device_status.data(), sizeof status); }

}  // namespace graft
