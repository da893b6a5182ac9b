// SPDX-License-Identifier: Apache-2.0
// Asynchronous runs: they end on the session's own thread, which takes the GIL for that.
#include <memory>
#include <utility>

#include "failure.h"
#include "run_arguments.h"
#include "session.h"
#include "without_gil.h"

namespace nb = nanobind;

namespace graft_python {

/// A run on its way. Destroyed with the GIL held; perhaps the last that keeps its session.
struct AsyncRun {
  Session& of;
  nb::object session, done;
  std::shared_ptr<graft_engine> engine;
  RunArguments arguments;
  graft_allocator allocator = {};
  OutsideCall call;

  AsyncRun(Session& session, nb::object self, nb::object tell, RunArguments with)
      : of(session), session(std::move(self)), done(std::move(tell)), engine(session.engine_.handle),
        arguments(std::move(with)), allocator(arguments.allocator()), call(session.handle_.get()) {
    ++of.pending_;
  }
  ~AsyncRun() { --of.pending_; }
  AsyncRun(const AsyncRun&) = delete;
  AsyncRun& operator=(const AsyncRun&) = delete;

  void end(graft_status status, const char* message);
  static void finish(void* context, graft_status status, const char* message);
};

void AsyncRun::end(graft_status status, const char* message) {
  try {
    if (status == GRAFT_OK) {
      done(arguments.results(engine.get()), nb::none());
    } else {
      done(nb::none(), arguments.raised.is_valid() ? arguments.raised : exception_of(status, message));
    }
  } catch (nb::python_error& error) {  // of `done`, which is the package's own
    error.discard_as_unraisable(done);
  }
}

void AsyncRun::finish(void* context, graft_status status, const char* message) {
  const nb::gil_scoped_acquire gil;
  const std::unique_ptr<AsyncRun> run(static_cast<AsyncRun*>(context));
  run->end(status, message);
}

uint64_t Session::run_async(nb::object self, const nb::list& inputs, const nb::list& outputs,
                            const nb::object& allocate, const nb::object& ordered, nb::object done) {
  const Use use(*this, /*waits=*/false);
  RunArguments gathered = gather(inputs, outputs, allocate, ordered);
  auto run = std::make_unique<AsyncRun>(*this, std::move(self), std::move(done), std::move(gathered));
  RunArguments& arguments = run->arguments;
  uint64_t number = 0;
  graft_error error;
  check(graft_session_run_async(handle_.get(), arguments.given.data(), arguments.given.size(), arguments.wanted.data(),
                                arguments.wanted.size(), &run->allocator, AsyncRun::finish, run.get(), &number, &error),
        error);
  run.release();  // its end deletes it, which takes the GIL
  return number;
}

void Session::cancel_run(uint64_t run) { graft_session_cancel_run(handle_.get(), run); }

}  // namespace graft_python
