// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "array_view.h"
#include "failure.h"
#include "held_value.h"
#include "interrupt.h"
#include "without_gil.h"

namespace nb = nanobind;

namespace graft_python {
namespace {

constexpr size_t kAlignment = 64;

/// The numpy type that holds elements of a type: itself, or unsigned integers of its width; types narrower than a byte
/// come as their bytes.
nb::dlpack::dtype numpy_type(int32_t dtype) {
  const auto type = [](nb::dlpack::dtype_code code, int bits) {
    return nb::dlpack::dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  };
  using Code = nb::dlpack::dtype_code;
  switch (dtype) {
    case GRAFT_FLOAT32: return type(Code::Float, 32);
    case GRAFT_FLOAT64: return type(Code::Float, 64);
    case GRAFT_FLOAT16: return type(Code::Float, 16);
    case GRAFT_INT8: return type(Code::Int, 8);
    case GRAFT_INT16: return type(Code::Int, 16);
    case GRAFT_INT32: return type(Code::Int, 32);
    case GRAFT_INT64: return type(Code::Int, 64);
    case GRAFT_UINT16:
    case GRAFT_BFLOAT16: return type(Code::UInt, 16);
    case GRAFT_UINT32: return type(Code::UInt, 32);
    case GRAFT_UINT64: return type(Code::UInt, 64);
    case GRAFT_BOOL: return type(Code::Bool, 8);
    case GRAFT_COMPLEX64: return type(Code::Complex, 64);
    case GRAFT_COMPLEX128: return type(Code::Complex, 128);
    default: return type(Code::UInt, 8);
  }
}

bool is_packed(int32_t dtype) {
  return dtype == GRAFT_INT4 || dtype == GRAFT_UINT4 || dtype == GRAFT_FLOAT4E2M1 || dtype == GRAFT_INT2 ||
         dtype == GRAFT_UINT2;
}

/// Memory that an output was given during the run, before it becomes an array.
struct NewOutput {
  std::unique_ptr<void, void (*)(void*)> data{nullptr, std::free};
  int32_t dtype = 0;
  std::vector<size_t> shape;
  size_t bytes = 0;
  nb::object array;  ///< of the caller's `allocate`, instead
};

/// What graft_allocator's context is: the run's new outputs.
struct Outputs {
  std::vector<NewOutput> made;
  nb::handle allocate;  ///< none, or Python's
};

/// Asks Python for an output's array, or a pair of it and its capsule of DLPack, with the GIL taken for that long; a
/// Python exception stays pending.
void* ask_python(Outputs& outputs, int32_t output, int32_t dtype, int32_t rank, const int64_t* shape) {
  nb::gil_scoped_acquire gil;
  try {
    nb::list sizes;
    for (int32_t axis = 0; axis < rank; ++axis) sizes.append(shape[axis]);
    nb::object array = outputs.allocate(output, dtype, nb::tuple(sizes)), viewed = array;
    if (PyTuple_CheckExact(array.ptr())) {
      viewed = array[1];
      array = nb::object(array[0]);
    }
    const ArrayView view(viewed, "the array of allocate()", dtype, true);
    outputs.made[static_cast<size_t>(output)].array = std::move(array);
    return view.tensor().data;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const Failure& failure) {
    PyErr_SetString(PyExc_TypeError, failure.what());
  }
  return nullptr;
}

void* allocate_output(void* context, int32_t output, int32_t dtype, int32_t rank, const int64_t* shape, size_t bytes) {
  Outputs& outputs = *static_cast<Outputs*>(context);
  if (!outputs.allocate.is_none()) return ask_python(outputs, output, dtype, rank, shape);
  NewOutput& made = outputs.made[static_cast<size_t>(output)];
  made.data.reset(std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment));
  made.dtype = dtype;
  made.shape.assign(shape, shape + rank);
  made.bytes = bytes;
  return made.data.get();
}

/// The memory as a numpy array that owns it.
nb::object as_array(NewOutput made) {
  if (made.array.is_valid()) return std::move(made.array);
  nb::list sizes;
  const bool packed = is_packed(made.dtype);
  if (packed) {
    for (const size_t size : made.shape) sizes.append(size);
    made.shape.assign(1, made.bytes);
  }
  void* data = made.data.release();
  nb::capsule owner(data, [](void* memory) noexcept { std::free(memory); });
  nb::ndarray<nb::numpy> array(data, made.shape.size(), made.shape.data(), owner, nullptr, numpy_type(made.dtype));
  const nb::object result = nb::cast(array, nb::rv_policy::reference);
  return packed ? nb::object(nb::make_tuple(result, nb::tuple(sizes))) : result;
}

}  // namespace

Engine engine_of(graft_status status, graft_engine* engine, const graft_error& error) {
  if (status != GRAFT_OK) check(status, error);
  return {std::shared_ptr<graft_engine>(engine, graft_engine_release)};
}

class Session::Use {
 public:
  explicit Use(Session& session) : session_(session) {
    if (session.busy_.exchange(true)) {
      throw Failure(GRAFT_INVALID_ARGUMENT,
                    "this session is running in another thread: make a graft.Session for each thread");
    }
    if (session.handle_) return;
    session.busy_ = false;
    throw Failure(GRAFT_INVALID_ARGUMENT, "this session is closed");
  }
  ~Use() { session_.busy_ = false; }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  Session& session_;
};

Session::Session(const Engine& engine, int threads) : engine_(engine), handle_(nullptr, graft_session_destroy) {
  graft_session* session = nullptr;
  graft_error error;
  check(graft_session_create(engine.handle.get(), threads, &session, &error), error);
  handle_.reset(session);
}

nb::list Session::run(const nb::list& inputs, const nb::list& outputs, const nb::object& allocate,
                      const nb::object& ordered) {
  const Use use(*this);
  const StreamFor stream_for = [&](nb::handle array) { return this->stream_for(array, ordered); };
  std::vector<ArrayView> views;
  std::vector<graft_tensor> given, wanted;
  const size_t count = nb::len(inputs);
  views.reserve(count + nb::len(outputs)), given.reserve(count), wanted.reserve(nb::len(outputs));
  for (size_t i = 0; i < count; ++i) {
    const graft_value_info* info = graft_engine_input(engine_.handle.get(), i);
    if (nb::isinstance<HeldValue>(inputs[i])) {
      const auto& held = nb::cast<const HeldValue&>(inputs[i]);
      given.push_back(info && info->type ? graft_tensor{.struct_size = sizeof(graft_tensor)} : held.describe());
      given.back().value = held.get();
      continue;
    }
    views.push_back(view_of_given(inputs[i], info ? info->name : "input", stream_for));
    given.push_back(views.back().tensor());
  }
  Outputs made{.made = std::vector<NewOutput>(nb::len(outputs)), .allocate = allocate};
  for (size_t i = 0; i < nb::len(outputs); ++i) {
    const graft_value_info* info = graft_engine_output(engine_.handle.get(), i);
    const nb::object target = outputs[i];
    wanted.push_back({.struct_size = sizeof(graft_tensor), .name = info ? info->name : nullptr});
    if (target.is_none()) continue;
    views.emplace_back(target, wanted.back().name ? wanted.back().name : "output", info ? info->dtype : 0, true,
                       stream_for);
    wanted.back() = views.back().tensor();
    wanted.back().name = info ? info->name : nullptr;
  }
  if (!allocate.is_none()) {
    for (graft_tensor& tensor : wanted) {
      if (!tensor.data && !given.empty()) tensor.device = given[0].device;
    }
  }
  run_once(given, wanted, {allocate_output, &made});
  nb::list results;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const nb::object target = outputs[i];
    const graft_value_info* info = graft_engine_output(engine_.handle.get(), i);
    if (info && (info->type || info->dtype == GRAFT_STRING)) {
      results.append(info->type ? HeldValue(graft_value_retain(wanted[i].value)) : HeldValue::copy(wanted[i]));
      continue;
    }
    results.append(target.is_none() ? as_array(std::move(made.made[i])) : target);
  }
  return results;
}

void Session::run_once(const std::vector<graft_tensor>& inputs, std::vector<graft_tensor>& outputs,
                       const graft_allocator& allocator) {
  for (;;) {
    graft_error error;
    graft_status status = GRAFT_OK;
    bool interrupted = false;
    {
      const WithoutGil without_gil(handle_.get());
      const InterruptScope scope(handle_.get());
      status = graft_session_run(handle_.get(), inputs.data(), inputs.size(), outputs.data(), outputs.size(),
                                 &allocator, &error);
      interrupted = scope.interrupted();
    }
    if (status != GRAFT_CANCELLED || !interrupted) return check(status, error);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    // A handler that raises nothing wants the run: it begins anew.
  }
}

void Session::cancel() { graft_session_cancel(handle_.get()); }

void Session::set_deadline(double seconds) {
  const Use use(*this);
  graft_error error;
  check(graft_session_set_deadline(handle_.get(), seconds, &error), error);
}

void Session::set_stream(uintptr_t stream) {
  const Use use(*this);
  use_stream(stream);
}

void Session::use_stream(uintptr_t stream) {
  graft_error error;
  check(graft_session_set_stream(handle_.get(), reinterpret_cast<void*>(stream), &error), error);
  stream_ = stream;
}

int64_t Session::stream_for(nb::handle array, nb::handle ordered) {
  if (array.type().is(ordered)) return -1;
  constexpr uintptr_t kDefaultStream = 1;  // the legacy default stream, as CUDA and DLPack number it
  if (stream_ == 0) use_stream(kDefaultStream);
  return static_cast<int64_t>(stream_);
}

void Session::wait() {
  const Use use(*this);
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const WithoutGil without_gil;
    status = graft_session_wait(handle_.get(), &error);
  }
  check(status, error);
}

void Session::set_memory_limit(uint64_t bytes) {
  const Use use(*this);
  graft_session_set_memory_limit(handle_.get(), bytes);
}

void Session::set_profiling(bool on) {
  const Use use(*this);
  graft_session_set_profiling(handle_.get(), on);
}

nb::list Session::profile() {
  const Use use(*this);
  std::vector<graft_step_time> times(graft_session_profile(handle_.get(), nullptr, 0));
  graft_session_profile(handle_.get(), times.data(), times.size());
  nb::list steps;
  for (const graft_step_time& time : times) steps.append(nb::make_tuple(time.name, time.begin_us, time.end_us));
  return steps;
}

uint64_t Session::arena_bytes() {
  const Use use(*this);
  return graft_session_arena_bytes(handle_.get());
}

void Session::close() {
  if (!handle_) return;
  const Use use(*this);
  graft_session* const ended = handle_.release();  // while the GIL is held, as cancel() asks for it
  const WithoutGil without_gil;
  graft_session_destroy(ended);
}

void bind_session(nb::module_& module) {
  nb::class_<Session>(module, "Session")
      .def(nb::init<const Engine&, int>())
      .def("run", &Session::run, nb::arg("inputs"), nb::arg("outputs"), nb::arg("allocate").none(),
           nb::arg("ordered").none())
      .def("set_stream", &Session::set_stream)
      .def("was_captured", &Session::was_captured)
      .def("wait", &Session::wait)
      .def("set_memory_limit", &Session::set_memory_limit)
      .def("set_profiling", &Session::set_profiling)
      .def("profile", &Session::profile)
      .def("arena_bytes", &Session::arena_bytes)
      .def("cancel", &Session::cancel)
      .def("set_deadline", &Session::set_deadline)
      .def("close", &Session::close);
}

}  // namespace graft_python
