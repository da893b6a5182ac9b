// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "array_view.h"
#include "failure.h"
#include "held_value.h"
#include "interrupt.h"
#include "run_arguments.h"
#include "without_gil.h"

namespace nb = nanobind;

namespace graft_python {
namespace {

/// Calls what may wait for asynchronous runs, whose ends take the GIL.
template <class Call>
auto outside(const Call& call) {
  const WithoutGil without_gil;
  return call();
}

}  // namespace

Engine engine_of(graft_status status, graft_engine* engine, const graft_error& error) {
  if (status != GRAFT_OK) check(status, error);
  return {std::shared_ptr<graft_engine>(engine, graft_engine_release)};
}

void Session::settle() {
  const std::shared_ptr<graft_session> kept = handle_;
  if (pending_ == 0 || !kept) return;
  {
    const WithoutGil without_gil(kept.get());
    const InterruptScope scope(kept.get());
    graft_session_was_captured(kept.get());  // which waits, and changes nothing
  }
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

Session::Use::Use(Session& session, bool waits) : session_(session) {
  if (waits) session.settle();
  if (session.busy_.exchange(true)) {
    throw Failure(GRAFT_INVALID_ARGUMENT,
                  "this session is running in another thread: make a graft.Session for each thread");
  }
  if (session.handle_) return;
  session.busy_ = false;
  throw Failure(GRAFT_INVALID_ARGUMENT, "this session is closed");
}

Session::Session(const Engine& engine, int threads) : engine_(engine) {
  graft_session* session = nullptr;
  graft_error error;
  check(graft_session_create(engine.handle.get(), threads, &session, &error), error);
  handle_.reset(session, graft_session_destroy);
}

RunArguments Session::gather(const nb::list& inputs, const nb::list& outputs, const nb::object& allocate,
                             const nb::object& ordered) {
  const StreamFor stream_for = [&](nb::handle array) { return this->stream_for(array, ordered); };
  RunArguments run{.inputs = inputs, .outputs = outputs, .allocate = allocate, .views = {}, .given = {}, .wanted = {},
                   .made = std::vector<NewOutput>(nb::len(outputs)), .raised = {}};
  const size_t count = nb::len(inputs);
  run.views.reserve(count + nb::len(outputs)), run.given.reserve(count), run.wanted.reserve(nb::len(outputs));
  for (size_t i = 0; i < count; ++i) {
    const graft_value_info* info = graft_engine_input(engine_.handle.get(), i);
    if (nb::isinstance<HeldValue>(inputs[i])) {
      const auto& held = nb::cast<const HeldValue&>(inputs[i]);
      run.given.push_back(info && info->type ? graft_tensor{.struct_size = sizeof(graft_tensor)} : held.describe());
      if (info && info->type) run.given.back().value = held.get();
      continue;
    }
    run.views.push_back(view_of_given(inputs[i], info ? info->name : "input", stream_for));
    run.given.push_back(run.views.back().tensor());
  }
  for (size_t i = 0; i < nb::len(outputs); ++i) {
    const graft_value_info* info = graft_engine_output(engine_.handle.get(), i);
    const nb::object target = outputs[i];
    run.wanted.push_back({.struct_size = sizeof(graft_tensor), .name = info ? info->name : nullptr});
    if (target.is_none()) continue;
    run.views.emplace_back(target, run.wanted.back().name ? run.wanted.back().name : "output", info ? info->dtype : 0,
                           true, stream_for);
    run.wanted.back() = run.views.back().tensor();
    run.wanted.back().name = info ? info->name : nullptr;
  }
  if (!allocate.is_none()) {
    for (graft_tensor& tensor : run.wanted) {
      if (!tensor.data && !run.given.empty()) tensor.device = run.given[0].device;
    }
  }
  return run;
}

nb::list Session::run(const nb::list& inputs, const nb::list& outputs, const nb::object& allocate,
                      const nb::object& ordered) {
  const Use use(*this);
  RunArguments run = gather(inputs, outputs, allocate, ordered);
  run_once(run);
  return run.results(engine_.handle.get());
}

void Session::run_once(RunArguments& run) {
  const graft_allocator allocator = run.allocator();
  for (;;) {
    graft_error error;
    graft_status status = GRAFT_OK;
    bool interrupted = false;
    {
      const WithoutGil without_gil(handle_.get());
      const InterruptScope scope(handle_.get());
      status = graft_session_run(handle_.get(), run.given.data(), run.given.size(), run.wanted.data(),
                                 run.wanted.size(), &allocator, &error);
      interrupted = scope.interrupted();
    }
    if (status != GRAFT_OK && run.raised.is_valid()) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(run.raised.ptr())), run.raised.ptr());
      throw nb::python_error();
    }
    if (status != GRAFT_CANCELLED || !interrupted) return check(status, error);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    // A handler that raises nothing wants the run: it begins anew.
  }
}

bool Session::was_captured() const {
  const std::shared_ptr<graft_session> kept = handle_;
  return outside([&] { return graft_session_was_captured(kept.get()) != 0; });
}

void Session::cancel() { graft_session_cancel(handle_.get()); }

void Session::set_deadline(double seconds) {
  const Use use(*this);
  graft_error error;
  check(outside([&] { return graft_session_set_deadline(handle_.get(), seconds, &error); }), error);
}

void Session::set_stream(uintptr_t stream) {
  const Use use(*this);
  use_stream(stream);
}

void Session::use_stream(uintptr_t stream) {
  graft_error error;
  void* const native = reinterpret_cast<void*>(stream);
  check(outside([&] { return graft_session_set_stream(handle_.get(), native, &error); }), error);
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
  check(outside([&] { return graft_session_wait(handle_.get(), &error); }), error);
}

void Session::set_memory_limit(uint64_t bytes) {
  const Use use(*this);
  outside([&] { return graft_session_set_memory_limit(handle_.get(), bytes), 0; });
}

void Session::set_profiling(bool on) {
  const Use use(*this);
  outside([&] { return graft_session_set_profiling(handle_.get(), on), 0; });
}

nb::list Session::profile() {
  const Use use(*this);
  std::vector<graft_step_time> times(outside([&] { return graft_session_profile(handle_.get(), nullptr, 0); }));
  graft_session_profile(handle_.get(), times.data(), times.size());
  nb::list steps;
  for (const graft_step_time& time : times) steps.append(nb::make_tuple(time.name, time.begin_us, time.end_us));
  return steps;
}

uint64_t Session::arena_bytes() {
  const Use use(*this);
  return outside([&] { return graft_session_arena_bytes(handle_.get()); });
}

void Session::close() {
  if (!handle_) return;
  cancel();  // asynchronous runs, for which Use waits
  const Use use(*this);
  std::shared_ptr<graft_session> ended = std::move(handle_);  // while the GIL is held, as cancel() asks for it
  const WithoutGil without_gil;
  ended.reset();
}

void bind_session(nb::module_& module) {
  nb::class_<Session>(module, "Session")
      .def(nb::init<const Engine&, int>())
      .def("run", &Session::run, nb::arg("inputs"), nb::arg("outputs"), nb::arg("allocate").none(),
           nb::arg("ordered").none())
      .def(
          "run_async",
          [](nb::object self, const nb::list& inputs, const nb::list& outputs, const nb::object& allocate,
             const nb::object& ordered, nb::object done) {
            return nb::cast<Session&>(self).run_async(self, inputs, outputs, allocate, ordered, std::move(done));
          },
          nb::arg("inputs"), nb::arg("outputs"), nb::arg("allocate").none(), nb::arg("ordered").none(),
          nb::arg("done"))
      .def("cancel_run", &Session::cancel_run)
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
