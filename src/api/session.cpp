// SPDX-License-Identifier: Apache-2.0
// The C interface: running engines.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/session_handle.h"
#include "runtime/bind.h"
#include "runtime/strided_copy.h"

using graft::api_detail::guarded;
using graft::api_detail::TensorList;

namespace graft::api_detail {

constexpr int32_t kMaxRank = 64;

}  // namespace graft::api_detail

namespace {

using graft::DType;
using graft::Error;
using graft::ErrorKind;

/// The index of the value that a tensor of a call stands for; names the ones there are.
size_t find_value(const std::vector<graft_value_info>& values, const graft_tensor& tensor, size_t position,
                  const char* what) {
  if (!tensor.name && position < values.size()) return position;
  for (size_t i = 0; tensor.name && i < values.size(); ++i) {
    if (std::string_view(values[i].name) == tensor.name) return i;
  }
  std::vector<std::string_view> names;
  for (const graft_value_info& value : values) names.push_back(value.name);
  const std::string message =
      tensor.name ? fmt::format("the engine has no {} '{}'; it has {}", what, tensor.name, fmt::join(names, ", "))
                  : fmt::format("{} {}s were given; the engine has {}", position + 1, what, values.size());
  throw Error(ErrorKind::kInvalidArgument, message, "run");
}

/// How many bytes a view spans from `data` on; 0 when strides go backwards (then nothing can be checked).
struct Span {
  uint64_t bytes = 0;
  bool overflows = false;
};

Span span_of(const graft::BufferView& view) {
  const int64_t count = graft::element_count(view);
  if (count == 0) return {};
  int64_t last = 0, lowest = 0;
  bool overflows = false;
  for (size_t axis = 0; axis < view.shape.size(); ++axis) {
    if (view.strides.empty()) break;
    int64_t reach = 0;
    overflows |= __builtin_mul_overflow(view.shape[axis] - 1, view.strides[axis], &reach);
    overflows |= __builtin_add_overflow(reach < 0 ? lowest : last, reach, reach < 0 ? &lowest : &last);
  }
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 64;
  if (overflows || last > kMost || lowest < -kMost) return {0, true};
  if (lowest < 0) return {};
  return {static_cast<uint64_t>(graft::packed_bytes(view.type, view.strides.empty() ? count : last + 1)), false};
}

/// Whether a tensor's memory is the GPU's.
template <class Where>
bool lies_on_device(const graft_tensor& tensor, const Where& where) {
  GRAFT_USER_CHECK(tensor.device >= GRAFT_HOST && tensor.device <= GRAFT_CUDA_HOST, kInvalidArgument,
                   fmt::format("{} is no device: GRAFT_HOST or GRAFT_CUDA", tensor.device), where());
  return tensor.device == GRAFT_CUDA;
}

/// Copies a description into a view that keeps its memory from call to call.
void take(const graft_tensor& tensor, const graft_value_info& value, const char* what, graft::BufferView& view) {
  const auto where = [&] { return fmt::format("{} '{}'", what, value.name); };
  const std::optional<DType> type = graft::dtype_from_onnx(tensor.dtype);
  GRAFT_USER_CHECK(type, kInvalidArgument, fmt::format("{} is no element type", tensor.dtype), where());
  GRAFT_USER_CHECK(tensor.rank >= 0 && tensor.rank <= graft::api_detail::kMaxRank, kInvalidArgument,
                   fmt::format("rank {} is not between 0 and {}", tensor.rank, graft::api_detail::kMaxRank), where());
  GRAFT_USER_CHECK(tensor.shape || tensor.rank == 0, kInvalidArgument, "the shape is NULL", where());
  view.data = tensor.data;
  view.on_device = lies_on_device(tensor, where);
  view.type = *type;
  view.shape.assign(tensor.shape, tensor.shape + tensor.rank);
  view.strides.clear();
  if (tensor.strides) view.strides.assign(tensor.strides, tensor.strides + tensor.rank);
  for (int32_t axis = 0; axis < tensor.rank; ++axis) {
    GRAFT_USER_CHECK(tensor.shape[axis] >= 0, kInvalidArgument,
                     fmt::format("axis {} has extent {}", axis, tensor.shape[axis]), where());
  }
  try {
    graft::checked_element_count(view.type, view.shape);
  } catch (const Error& fault) {
    throw Error(fault.kind(), fault.message(), where());
  }
  const Span span = span_of(view);
  GRAFT_USER_CHECK(!span.overflows, kInvalidArgument,
                   fmt::format("strides [{}] reach beyond any memory", fmt::join(view.strides, ", ")), where());
  GRAFT_USER_CHECK(graft::bit_width(view.type) >= 8 || !graft::needs_copy(view), kInvalidArgument,
                   "elements narrower than a byte must be row-major", where());
  GRAFT_USER_CHECK(tensor.bytes == 0 || span.bytes <= tensor.bytes, kInvalidArgument,
                   fmt::format("its shape takes {} bytes, the memory has {}", span.bytes, tensor.bytes), where());
}

/// The elements of an output are written, so they may not share memory.
void check_written(const graft::BufferView& view, const graft_value_info& value) {
  for (size_t axis = 0; axis < view.strides.size(); ++axis) {
    GRAFT_USER_CHECK(
        view.strides[axis] != 0 || view.shape[axis] <= 1, kInvalidArgument,
        fmt::format("axis {} of {} elements has stride 0, so that they would share memory", axis, view.shape[axis]),
        fmt::format("output '{}'", value.name));
  }
}

}  // namespace

void graft_session::follow() {
  if (current || engine->learning()) return;
  running = &engine->latest();
  made.emplace(running->loaded, threads);
  for (const auto& [what, setting] : settings) setting(*made);
  current = &*made;
}

void graft_session::set(const char* what, std::function<void(graft::Session&)> setting) {
  follow();
  if (current) return setting(*current);
  settings[what] = std::move(setting);
}

void graft_session::learn(graft_engine::Learning& learning) {
  std::vector<graft::TensorData> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    GRAFT_USER_CHECK(!inputs[i].on_device, kUnsupported,
                     "engines are calibrated on the processor: give tensors in the host's memory until the calibration "
                     "has ended", fmt::format("input '{}'", engine->inputs[i].name));
    graft::TensorData dense = graft::TensorData::zeros(inputs[i].type, inputs[i].shape);
    if (dense.element_count() > 0) graft::copy_to_dense(inputs[i], dense.mutable_bytes().data());
    given.push_back(std::move(dense));
  }
  graft::api_detail::run_learning(*engine, learning, given,
                                  [&](std::span<const graft::TensorData> results) { give_learned(results); });
}

/// To where the caller wants them.
void graft_session::give_learned(std::span<const graft::TensorData> results) {
  learned.resize(outputs.size());
  for (size_t output = 0; output < outputs.size(); ++output) {
    if (wanted[output] < 0) continue;
    const graft::TensorData& result = results[output];
    graft::BufferView& view = outputs[output];
    const std::string where = fmt::format("output '{}'", engine->outputs[output].name);
    if (view.data) {
      GRAFT_USER_CHECK(view.type == result.type() && view.shape == result.shape() && !view.on_device, kInvalidArgument,
                       fmt::format("it is {} in the host's memory", describe(result)), where);
    } else {
      view.type = result.type(), view.shape = result.shape(), view.strides.clear(), view.on_device = false;
      if (!allocator || !allocator->allocate) {
        learned[output] = result;
        view.data = learned[output].mutable_bytes().data();
        continue;
      }
      view.data = allocate(static_cast<int>(output), view.type, view.shape, result.bytes().size());
      GRAFT_USER_CHECK(view.data || result.bytes().empty(), kOutOfMemory, "there is no memory for it", where);
    }
    if (!result.bytes().empty()) graft::copy_from_dense(result.bytes().data(), view);
  }
}

void graft_session::take_inputs(const TensorList& tensors) {
  for (graft::BufferView& view : inputs) view.type = DType::kUndefined;
  given.assign(holds ? inputs.size() : 0, {});
  for (size_t i = 0; i < tensors.size(); ++i) {
    const graft_tensor tensor = tensors[i];
    const size_t input = find_value(engine->inputs, tensor, i, "input");
    GRAFT_USER_CHECK(inputs[input].type == DType::kUndefined, kInvalidArgument, "it was given twice",
                     fmt::format("input '{}'", engine->inputs[input].name));
    if (!input_handles_of(input).empty()) {
      hold_input(input, tensor);
      continue;
    }
    take(tensor, engine->inputs[input], "input", inputs[input]);
    GRAFT_USER_CHECK(tensor.data || graft::element_count(inputs[input]) == 0, kInvalidArgument, "its data is NULL",
                     fmt::format("input '{}'", engine->inputs[input].name));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    GRAFT_USER_CHECK(inputs[i].type != DType::kUndefined, kInvalidArgument, "it was not given",
                     fmt::format("input '{}'", engine->inputs[i].name));
  }
  if (holds) hold_inputs();
}

void graft_session::take_outputs(const TensorList& tensors) {
  std::fill(wanted.begin(), wanted.end(), -1);
  for (size_t i = 0; i < outputs.size(); ++i) {
    graft::BufferView& view = outputs[i];
    view.data = nullptr, view.shape.clear(), view.strides.clear();
    // What nobody wants stays there; handles are the host's.
    view.on_device = running && running->loaded->device != nullptr && output_handles_of(i).empty();
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const graft_tensor tensor = tensors[i];
    const size_t output = find_value(engine->outputs, tensor, i, "output");
    GRAFT_USER_CHECK(wanted[output] < 0, kInvalidArgument, "it was asked for twice",
                     fmt::format("output '{}'", engine->outputs[output].name));
    wanted[output] = static_cast<int>(i);
    if (!output_handles_of(output).empty()) {
      take_held_output(output, tensor, tensors.has_values());
      continue;
    }
    if (!tensor.data) {
      const auto where = [&] { return fmt::format("output '{}'", engine->outputs[output].name); };
      outputs[output].on_device = lies_on_device(tensor, where);
      continue;
    }
    take(tensor, engine->outputs[output], "output", outputs[output]);
    check_written(outputs[output], engine->outputs[output]);
  }
}

void graft_session::give_outputs(const TensorList& tensors) {
  for (size_t output = 0; output < outputs.size(); ++output) {
    if (wanted[output] < 0 || static_cast<size_t>(wanted[output]) >= tensors.size()) continue;
    graft_tensor& tensor = tensors.place(static_cast<size_t>(wanted[output]));
    if (!output_handles_of(output).empty()) {
      give_held_output(output, tensor);
      continue;
    }
    if (tensor.data) continue;
    const graft::BufferView& view = outputs[output];
    tensor.dtype = graft::onnx_code(view.type);
    tensor.rank = static_cast<int32_t>(view.shape.size());
    tensor.shape = view.shape.data();
    tensor.strides = nullptr;
    tensor.data = view.data;
    tensor.bytes =
        static_cast<uint64_t>(graft::packed_bytes(view.type, graft::checked_element_count(view.type, view.shape)));
  }
}

/// Copies what an input holds, before the values of the last run go: it may be one of them.
void graft_session::hold_input(size_t input, const graft_tensor& tensor) {
  const std::string where = fmt::format("input '{}'", engine->inputs[input].name);
  graft::BufferView& view = inputs[input];
  view = {};
  view.type = DType::kUint64;
  if (input_handles_of(input) != "str") {
    GRAFT_USER_CHECK(tensor.value, kInvalidArgument,
                     fmt::format("it is {}: give a graft_value", engine->inputs[input].type), where);
    given[input].value = tensor.value->value.copied();
    return;
  }
  GRAFT_USER_CHECK(tensor.dtype == GRAFT_STRING, kInvalidArgument,
                   fmt::format("its type is str, element type {} was given", tensor.dtype), where);
  given[input].strings = graft::api_detail::pooled_texts(tensor, where);
  view.shape.assign(tensor.shape, tensor.shape + tensor.rank);
}

void graft_session::hold_inputs() {
  made->start_values();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (input_handles_of(i).empty()) continue;
    std::vector<uint64_t>& handles = input_handles[i];
    handles.clear();
    if (input_handles_of(i) != "str") handles.push_back(made->hold(std::move(given[i].value)));
    std::vector<uint64_t> held;
    for (const std::string& text : given[i].strings.texts) held.push_back(made->hold_text(text));
    for (const size_t element : given[i].strings.elements) handles.push_back(held[element]);
    inputs[i].data = handles.data();
  }
  given.clear();
}

/// The handles of an output go to memory of the session.
void graft_session::take_held_output(size_t output, const graft_tensor& tensor, bool has_values) {
  const std::string where = fmt::format("output '{}'", engine->outputs[output].name);
  outputs[output].on_device = false;
  if (output_handles_of(output) != "str") {
    GRAFT_USER_CHECK(has_values, kInvalidArgument,
                     "it is no tensor, which this program was compiled too early for: compile it with a newer "
                     "graft_c.h, or do not ask for the output",
                     where);
    return;
  }
  GRAFT_USER_CHECK(!tensor.data, kInvalidArgument,
                   "the session gives strings their memory: leave data NULL", where);
}

void graft_session::give_held_output(size_t output, graft_tensor& tensor) {
  const graft::BufferView& view = outputs[output];
  const auto* handles = static_cast<const uint64_t*>(view.data);
  if (output_handles_of(output) != "str") {
    graft_value_release(std::exchange(output_values[output], nullptr));
    output_values[output] = new graft_value(made->value(handles[0]).copied());
    tensor.value = output_values[output];
    return;
  }
  std::vector<graft_text>& texts = output_texts[output];
  texts.clear();
  for (int64_t i = 0; i < graft::element_count(view); ++i) {
    const std::string& text = made->text(handles[i]);
    texts.push_back({text.data(), text.size()});
  }
  tensor.dtype = GRAFT_STRING;
  tensor.rank = static_cast<int32_t>(view.shape.size());
  tensor.shape = view.shape.data();
  tensor.strides = nullptr;
  tensor.data = texts.data();
  tensor.bytes = texts.size() * sizeof(graft_text);
}

/// Null: on a device the session itself has memory for it.
void* graft_session::allocate(int output, DType type, std::span<const int64_t> shape, size_t bytes) {
  const bool on_device = outputs[output].on_device;
  if (!output_handles_of(static_cast<size_t>(output)).empty()) return made->give_output(output, bytes);
  if (!allocator || !allocator->allocate || wanted[output] < 0)
    return on_device ? nullptr : made->give_output(output, bytes);
  const std::string where = fmt::format("output '{}'", engine->outputs[output].name);
  void* data = nullptr;
  try {
    data = allocator->allocate(allocator->context, wanted[output], graft::onnx_code(type),
                               static_cast<int32_t>(shape.size()), shape.data(), bytes);
  } catch (const std::bad_alloc&) {  // one in C++: the fault is not this library's
    throw Error(ErrorKind::kOutOfMemory, fmt::format("the allocator gave no {} bytes", bytes), where);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the allocator threw an exception ({}); let it give NULL instead", error.what()), where);
  } catch (...) {
    throw Error(ErrorKind::kInvalidArgument, "the allocator threw an exception; let it give NULL instead", where);
  }
  GRAFT_USER_CHECK(data || !on_device || bytes == 0, kOutOfMemory, fmt::format("the allocator gave no {} bytes", bytes),
                   where);
  return data;
}

void graft_session::run(const graft_tensor* given_inputs, size_t input_count, graft_tensor* given_outputs,
                        size_t output_count, const graft_allocator* memory, bool (*cancelled)(void* session)) {
  const TensorList wanted_outputs(given_outputs, output_count, "outputs");
  const auto learning = engine->learning();
  if (!learning) follow();
  take_inputs({given_inputs, input_count, "inputs"});
  take_outputs(wanted_outputs);
  allocator = memory;
  if (learning) {
    learn(*learning);
    return give_outputs(wanted_outputs);
  }
  const auto allocate = [](void* context, int output, DType type, std::span<const int64_t> shape, size_t bytes) {
    return static_cast<graft_session*>(context)->allocate(output, type, shape, bytes);
  };
  const graft::Status status = current.load()->run(inputs, outputs, allocate, this, cancelled);
  if (!status.ok()) throw Error(status.kind(), status.message());
  give_outputs(wanted_outputs);
}

extern "C" {

graft_status graft_engine_output_shape(const graft_engine* engine, const graft_tensor* inputs, size_t input_count,
                                       size_t output, int64_t* shape, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(engine && shape && (inputs || input_count == 0), kInvalidArgument,
                     "the engine, the inputs or the place for the shape is NULL", "graft_engine_output_shape");
    GRAFT_USER_CHECK(output < engine->outputs.size(), kInvalidArgument,
                     fmt::format("there is no output {}; the engine has {}", output, engine->outputs.size()),
                     "graft_engine_output_shape");
    static char present = 0;  // data is not read, but there is some
    std::vector<graft::BufferView> views(engine->inputs.size());
    const TensorList given(inputs, input_count, "inputs");
    for (size_t i = 0; i < given.size(); ++i) {
      graft_tensor tensor = given[i];
      const size_t input = find_value(engine->inputs, tensor, i, "input");
      tensor.data = &present, tensor.bytes = 0, tensor.strides = nullptr, tensor.device = GRAFT_HOST;
      const std::string& handles = engine->data().tensors[engine->data().inputs[input]].handles;
      if (!handles.empty() && handles != "str") tensor.rank = 0;
      if (!handles.empty()) tensor.dtype = GRAFT_UINT64;  // what stands for strings and other values
      take(tensor, engine->inputs[input], "input", views[input]);
    }
    const std::vector<int64_t> sizes = graft::output_shape(engine->data(), views, static_cast<int>(output));
    std::copy(sizes.begin(), sizes.end(), shape);
  });
}

graft_status graft_session_create(graft_engine* engine, int32_t threads, graft_session** session, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(engine && session, kInvalidArgument, "engine or the place for the session is NULL",
                     "graft_session_create");
    GRAFT_USER_CHECK(threads >= 0 && threads <= 4096, kInvalidArgument,
                     fmt::format("{} is not a number of threads from 0 to 4096", threads), "graft_session_create");
    GRAFT_USER_CHECK(engine->elsewhere.empty(), kUnsupported,
                     "it was compiled for another machine: " + engine->elsewhere +
                         "; save it and load the plan where it is to run, or compile it for this machine",
                     engine->data().name.empty() ? "engine" : engine->data().name);
    *session = new graft_session(engine, threads);
  });
}

graft_status graft_session_run(graft_session* session, const graft_tensor* inputs, size_t input_count,
                               graft_tensor* outputs, size_t output_count, const graft_allocator* allocator,
                               graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(session, kInvalidArgument, "the session is NULL", "graft_session_run");
    GRAFT_USER_CHECK((inputs || input_count == 0) && (outputs || output_count == 0), kInvalidArgument,
                     "NULL with a count that is not 0", "graft_session_run");
    const graft::api_detail::RunQueue* const runs = session->queue.load();
    std::unique_lock one_at_a_time(session->run_locks().going_on, std::defer_lock);
    if (!runs || !runs->inside()) {
      session->settle();
      one_at_a_time.lock();
    }
    session->run(inputs, input_count, outputs, output_count, allocator);
  });
}

graft_status graft_session_set_stream(graft_session* session, void* stream, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(session, kInvalidArgument, "the session is NULL", "graft_session_set_stream");
    session->settle();
    session->set("stream", [stream](graft::Session& each) {
      const graft::Status status = each.set_stream(stream);
      if (!status.ok()) throw Error(status.kind(), status.message());
    });
  });
}

int32_t graft_session_was_captured(const graft_session* session) {
  if (session) session->settle();
  return session && session->current && session->current.load()->was_captured() ? 1 : 0;
}

graft_status graft_session_wait(graft_session* session, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(session, kInvalidArgument, "the session is NULL", "graft_session_wait");
    session->settle();
    if (!session->current) return;  // what learns has finished
    const graft::Status status = session->current.load()->wait();
    if (!status.ok()) throw Error(status.kind(), status.message());
  });
}

void graft_session_set_memory_limit(graft_session* session, uint64_t bytes) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!session) return;
  session->settle();
  const auto limit = static_cast<int64_t>(std::min(bytes, kMost));
  session->set("limit", [limit](graft::Session& each) { each.set_memory_limit(limit); });
}

void graft_session_set_scratch(graft_session* session, graft_scratch_function allocate, void* context) {
  if (!session) return;
  session->settle();
  session->set("scratch", [=](graft::Session& each) { each.set_scratch(allocate, context); });
}

graft_status graft_session_set_deadline(graft_session* session, double seconds, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(session, kInvalidArgument, "the session is NULL", "graft_session_set_deadline");
    GRAFT_USER_CHECK(seconds >= 0 && !std::isnan(seconds), kInvalidArgument,
                     fmt::format("{} is no number of seconds; 0 means no deadline", seconds),
                     "graft_session_set_deadline");
    session->settle();
    session->set("deadline", [seconds](graft::Session& each) { each.set_deadline(seconds); });
  });
}

void graft_session_set_profiling(graft_session* session, int32_t on) {
  if (!session) return;
  session->settle();
  session->set("profiling", [on](graft::Session& each) { each.set_profiling(on != 0); });
}

size_t graft_session_profile(const graft_session* session, graft_step_time* times, size_t capacity) {
  if (session) session->settle();
  if (!session || !session->current) return 0;
  const std::vector<graft::StepTime>& profile = session->current.load()->profile();
  for (size_t i = 0; i < profile.size() && i < capacity; ++i) {
    const graft::EngineStep& step = session->current.load()->last_engine().steps[profile[i].step];
    times[i] = {step.name.c_str(), profile[i].begin_us, profile[i].end_us};
  }
  return profile.size();
}

uint64_t graft_session_arena_bytes(const graft_session* session) {
  if (session) session->settle();
  return session && session->current ? session->current.load()->arena_bytes() : 0;
}

}  // extern "C"
