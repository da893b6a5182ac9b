// SPDX-License-Identifier: Apache-2.0
// The C interface: running engines.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/handles.h"
#include "api/value_handles.h"
#include "runtime/bind.h"
#include "runtime/strided_copy.h"

using graft::api_detail::guarded;

namespace graft::api_detail {

constexpr int32_t kMaxRank = 64;

}  // namespace graft::api_detail

namespace {

/// The tensors of a call, at the distance at which the program's version of the header lays them out.
class TensorList {
 public:
  TensorList(const graft_tensor* first, size_t count, const char* where)
      : first_(reinterpret_cast<const std::byte*>(first)), count_(count), size_(count ? first->struct_size : 0) {
    for (size_t i = 0; i < count; ++i) {
      // Beyond the first, a wrong distance would be read as one.
      GRAFT_USER_CHECK(size_ >= kFirstVersion && size_ <= kLargest && at(i)->struct_size == size_, kInvalidArgument,
                       fmt::format("struct_size of tensor {} is not set: give sizeof(graft_tensor)", i), where);
    }
  }
  size_t size() const { return count_; }
  /// The tensor with the members that this version knows; those that the program's version lacks are 0.
  graft_tensor operator[](size_t i) const {
    graft_tensor tensor{};
    std::memcpy(&tensor, at(i), std::min(size_, sizeof tensor));
    return tensor;
  }
  /// What the library fills in are members of the first version.
  graft_tensor& place(size_t i) const { return *const_cast<graft_tensor*>(at(i)); }
  /// Whether the program's version has the member for values that are no tensors.
  bool has_values() const { return size_ >= offsetof(graft_tensor, value) + sizeof(graft_value*); }

 private:
  static constexpr size_t kFirstVersion = offsetof(graft_tensor, device) + sizeof(int32_t), kLargest = 4096;
  const graft_tensor* at(size_t i) const { return reinterpret_cast<const graft_tensor*>(first_ + i * size_); }
  const std::byte* first_;
  size_t count_, size_;
};

}  // namespace

/// A session with buffers that are filled anew for each call, so that a call allocates nothing.
struct graft_session {
  graft_session(graft_engine* of, int threads)
      : engine(graft_engine_retain(of)),
        threads(threads),
        inputs(of->inputs.size()),
        outputs(of->outputs.size()),
        wanted(of->outputs.size()),
        input_handles(of->inputs.size()),
        output_texts(of->outputs.size()),
        output_values(of->outputs.size()) {
    const auto held = [&](const int tensor) { return !of->data().tensors[tensor].handles.empty(); };
    holds = std::any_of(of->data().inputs.begin(), of->data().inputs.end(), held) ||
            std::any_of(of->data().outputs.begin(), of->data().outputs.end(), held);
    follow();
  }
  ~graft_session() {
    for (graft_value* value : output_values) graft_value_release(value);
    graft_engine_release(engine);
  }

  /// Makes the session of the engine, or of what it has become, unless that still learns.
  void follow();
  /// Sets something of the session, also of one that is made later; `what` tells one from another.
  void set(const char* what, std::function<void(graft::Session&)> setting);
  /// Runs an engine that learns.
  void learn(graft_engine::Learning& learning);
  void give_learned(std::span<const graft::TensorData> results);
  void take_inputs(const TensorList& tensors);
  void take_outputs(const TensorList& tensors);
  void give_outputs(const TensorList& tensors);
  void hold_input(size_t input, const graft_tensor& tensor);
  void hold_inputs();
  void take_held_output(size_t output, const graft_tensor& tensor, bool has_values);
  void give_held_output(size_t output, graft_tensor& tensor);
  const std::string& input_handles_of(size_t input) const { return handles_of(engine->data().inputs[input]); }
  const std::string& output_handles_of(size_t output) const { return handles_of(engine->data().outputs[output]); }
  const std::string& handles_of(int tensor) const { return engine->data().tensors[tensor].handles; }
  void* allocate(int output, graft::DType type, std::span<const int64_t> shape, size_t bytes);

  graft_engine* engine;
  const graft_engine* running = nullptr;  ///< whose session `current` is: the engine, or what that has become
  int threads;
  std::optional<graft::Session> made;
  std::atomic<graft::Session*> current{nullptr};  ///< null while the engine learns
  std::map<std::string_view, std::function<void(graft::Session&)>> settings;  ///< while the engine learns
  std::vector<graft::TensorData> learned;  ///< its results then, where the caller has no memory for them
  std::vector<graft::BufferView> inputs, outputs;
  std::vector<int> wanted;  ///< by output: the position in the call, or -1
  // Strings, and values that are no tensors.
  bool holds = false;  ///< there are any
  struct Given {
    std::vector<std::string> texts;
    graft::DynamicValue value;
  };
  std::vector<Given> given;  ///< by input, until the values of the last run are forgotten
  std::vector<std::vector<uint64_t>> input_handles;
  std::vector<std::vector<graft_text>> output_texts;
  std::vector<graft_value*> output_values;
  const graft_allocator* allocator = nullptr;
};

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
  given[input].texts = graft::api_detail::copied_texts(tensor, where);
  view.shape.assign(tensor.shape, tensor.shape + tensor.rank);
}

void graft_session::hold_inputs() {
  made->start_values();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (input_handles_of(i).empty()) continue;
    std::vector<uint64_t>& handles = input_handles[i];
    handles.clear();
    if (input_handles_of(i) != "str") handles.push_back(made->hold(std::move(given[i].value)));
    for (const std::string& text : given[i].texts) handles.push_back(made->hold_text(text));
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

void graft_session_destroy(graft_session* session) { delete session; }

graft_status graft_session_run(graft_session* session, const graft_tensor* inputs, size_t input_count,
                               graft_tensor* outputs, size_t output_count, const graft_allocator* allocator,
                               graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(session, kInvalidArgument, "the session is NULL", "graft_session_run");
    GRAFT_USER_CHECK((inputs || input_count == 0) && (outputs || output_count == 0), kInvalidArgument,
                     "NULL with a count that is not 0", "graft_session_run");
    const TensorList wanted(outputs, output_count, "outputs");
    const auto learning = session->engine->learning();
    if (!learning) session->follow();
    session->take_inputs({inputs, input_count, "inputs"});
    session->take_outputs(wanted);
    session->allocator = allocator;
    if (learning) {
      session->learn(*learning);
      return session->give_outputs(wanted);
    }
    const auto allocate = [](void* context, int output, DType type, std::span<const int64_t> shape, size_t bytes) {
      return static_cast<graft_session*>(context)->allocate(output, type, shape, bytes);
    };
    const graft::Status status = session->current.load()->run(session->inputs, session->outputs, allocate, session);
    if (!status.ok()) throw Error(status.kind(), status.message());
    session->give_outputs(wanted);
  });
}

graft_status graft_session_set_stream(graft_session* session, void* stream, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(session, kInvalidArgument, "the session is NULL", "graft_session_set_stream");
    session->set("stream", [stream](graft::Session& each) {
      const graft::Status status = each.set_stream(stream);
      if (!status.ok()) throw Error(status.kind(), status.message());
    });
  });
}

int32_t graft_session_was_captured(const graft_session* session) {
  return session && session->current && session->current.load()->was_captured() ? 1 : 0;
}

graft_status graft_session_wait(graft_session* session, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(session, kInvalidArgument, "the session is NULL", "graft_session_wait");
    if (!session->current) return;  // what learns has finished
    const graft::Status status = session->current.load()->wait();
    if (!status.ok()) throw Error(status.kind(), status.message());
  });
}

void graft_session_set_memory_limit(graft_session* session, uint64_t bytes) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!session) return;
  const auto limit = static_cast<int64_t>(std::min(bytes, kMost));
  session->set("limit", [limit](graft::Session& each) { each.set_memory_limit(limit); });
}

void graft_session_set_scratch(graft_session* session, graft_scratch_function allocate, void* context) {
  if (!session) return;
  session->set("scratch", [=](graft::Session& each) { each.set_scratch(allocate, context); });
}

void graft_session_cancel(graft_session* session) {
  graft::Session* const running = session ? session->current.load() : nullptr;
  if (running) running->cancel();
}

graft_status graft_session_set_deadline(graft_session* session, double seconds, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(session, kInvalidArgument, "the session is NULL", "graft_session_set_deadline");
    GRAFT_USER_CHECK(seconds >= 0 && !std::isnan(seconds), kInvalidArgument,
                     fmt::format("{} is no number of seconds; 0 means no deadline", seconds),
                     "graft_session_set_deadline");
    session->set("deadline", [seconds](graft::Session& each) { each.set_deadline(seconds); });
  });
}

void graft_session_set_profiling(graft_session* session, int32_t on) {
  if (session) session->set("profiling", [on](graft::Session& each) { each.set_profiling(on != 0); });
}

size_t graft_session_profile(const graft_session* session, graft_step_time* times, size_t capacity) {
  if (!session || !session->current) return 0;
  const std::vector<graft::StepTime>& profile = session->current.load()->profile();
  for (size_t i = 0; i < profile.size() && i < capacity; ++i) {
    times[i] = {session->running->data().steps[profile[i].step].name.c_str(), profile[i].begin_us, profile[i].end_us};
  }
  return profile.size();
}

uint64_t graft_session_arena_bytes(const graft_session* session) {
  return session && session->current ? session->current.load()->arena_bytes() : 0;
}

}  // extern "C"
