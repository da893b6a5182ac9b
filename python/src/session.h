// SPDX-License-Identifier: Apache-2.0
// `_graft.Engine` and `_graft.Session`: the C interface's handles as Python objects.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include <nanobind/nanobind.h>

#include "graft/graft_c.h"

namespace graft_python {

/// A compiled network. Immutable, usable from any thread.
struct Engine {
  std::shared_ptr<graft_engine> handle;
};

/// Takes over what a call gave, or throws what it says.
Engine engine_of(graft_status status, graft_engine* engine, const graft_error& error);

struct AsyncRun;
struct RunArguments;

/// One run at a time. A second thread that enters gets an error instead of a race.
class Session {
 public:
  Session(const Engine& engine, int threads);

  /// Runs once, without the GIL. `inputs`: arrays in the engine's order, or (array, dtype, shape) where its bytes stand
  /// for elements of another type; shape None: the array's own. `outputs`: per output an array to write to, or None
  /// for a new numpy array (of unsigned integers of the same width where numpy has no such type; (bytes, shape) where
  /// elements share bytes). `allocate`: None, or called as allocate(output, dtype, shape) for an array that takes an
  /// output. `ordered`: None, or the type of the arrays whose library's current stream is the session's; all others on
  /// a GPU are handed over to that stream by their libraries. Strings and what is no tensor are HeldValues, of which
  /// outputs take no array. Gives the list of arrays and HeldValues.
  nanobind::list run(const nanobind::list& inputs, const nanobind::list& outputs, const nanobind::object& allocate,
                     const nanobind::object& ordered);
  /// The same on the session's own thread, which then calls `done(results, exception)`, one of them None, with the GIL
  /// held. `self` is this session. Gives the number of the run.
  uint64_t run_async(nanobind::object self, const nanobind::list& inputs, const nanobind::list& outputs,
                     const nanobind::object& allocate, const nanobind::object& ordered, nanobind::object done);
  /// Ends one asynchronous run, begun or not.
  void cancel_run(uint64_t run);
  void set_stream(uintptr_t stream);
  /// Whether a run went into a CUDA graph, whose the session then is.
  bool was_captured() const;
  void wait();
  void set_memory_limit(uint64_t bytes);
  void set_profiling(bool on);
  nanobind::list profile();
  uint64_t arena_bytes();
  /// Ends the run that is going on in another thread. Reads the handle with the GIL held, as close() takes it away.
  void cancel();
  void set_deadline(double seconds);
  void close();

 private:
  RunArguments gather(const nanobind::list& inputs, const nanobind::list& outputs, const nanobind::object& allocate,
                      const nanobind::object& ordered);
  /// The stream that an array is handed over to: the session's, which is the default one where it had none yet.
  int64_t stream_for(nanobind::handle array, nanobind::handle ordered);
  void use_stream(uintptr_t stream);
  /// Runs without the GIL; again when a signal ended the run and its handler raised nothing.
  void run_once(RunArguments& arguments);
  /// Returns when no asynchronous run waits or goes on; at once on the thread of those. Ctrl-C ends them.
  void settle();
  /// Holds the session for one call, after its asynchronous runs unless that does not wait; throws Failure when another
  /// thread has it, or when it is closed.
  class Use {
   public:
    explicit Use(Session& session, bool waits = true);
    ~Use() { session_.busy_ = false; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Session& session_;
  };

  Engine engine_;  // names of outputs are its
  std::shared_ptr<graft_session> handle_;  // of calls that wait, too
  uintptr_t stream_ = 0;  // 0: the session's own
  std::atomic<bool> busy_ = false;
  friend struct AsyncRun;
  int pending_ = 0;  // asynchronous runs that have not ended; with the GIL held
};

void bind_session(nanobind::module_& module);

}  // namespace graft_python
