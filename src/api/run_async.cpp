// SPDX-License-Identifier: Apache-2.0
// The C interface: asynchronous runs, their end, and the end of a session.
#include <exception>
#include <mutex>

#include "api/session_handle.h"
#include "base/log.h"

using graft::api_detail::guarded;
using graft::api_detail::RunQueue;

namespace {

/// An asynchronous run: what the caller gave.
struct Call {
  graft_session* session;
  const graft_tensor* inputs;
  size_t input_count;
  graft_tensor* outputs;
  size_t output_count;
  const graft_allocator* allocator;
  graft_run_function done;
  void* context;

  graft_status run(graft_error& error) const;
  void operator()() const;
};

/// On a GPU it waits for what was queued, so that results are there; in a graph that is being captured there are none.
graft_status Call::run(graft_error& error) const {
  return guarded(&error, [&] {
    const auto cancelled = [](void* of) { return static_cast<graft_session*>(of)->queue.load()->is_cancelled(); };
    if (cancelled(session)) throw graft::Error(graft::ErrorKind::kCancelled, "the run was cancelled before it began");
    session->run(inputs, input_count, outputs, output_count, allocator, cancelled);
    graft::Session* const current = session->current.load();
    if (!current || current->was_captured()) return;
    const graft::Status status = current->wait();
    if (!status.ok()) throw graft::Error(status.kind(), status.message());
  });
}

void Call::operator()() const {
  const std::lock_guard one_at_a_time(session->run_locks().going_on);
  graft_error error{};
  const graft_status status = run(error);
  try {
    done(context, status, status == GRAFT_OK ? "" : error.message);
  } catch (const std::exception& thrown) {  // of a caller in C++
    graft::log(graft::LogLevel::kError, "graft_session_run_async: `done` threw an exception ({})", thrown.what());
  } catch (...) {
    graft::log(graft::LogLevel::kError, "graft_session_run_async: `done` threw an exception");
  }
}

}  // namespace

graft_session::RunLocks& graft_session::run_locks() {
  RunLocks* known = locks.load();
  if (known->process == graft::api_detail::forks()) return *known;
  auto* const made = new RunLocks;
  if (locks.compare_exchange_strong(known, made)) return *made;
  delete made;
  return *known;
}

RunQueue& graft_session::open_queue() {
  const std::lock_guard lock(run_locks().queue_making);
  RunQueue* const known = queue.load();
  if (known && known->is_here()) return *known;
  queue = new RunQueue;  // that of the process that this one was forked from stays as it is: its thread is not here
  return *queue;
}

void graft_session::end_queue() {
  RunQueue* const runs = queue.load();
  if (!runs || !runs->is_here()) return;
  if (!runs->inside()) runs->finish([this] { stop(); });
  delete runs;
}

extern "C" {

graft_status graft_session_run_async(graft_session* session, const graft_tensor* inputs, size_t input_count,
                                     graft_tensor* outputs, size_t output_count, const graft_allocator* allocator,
                                     graft_run_function done, void* context, uint64_t* run, graft_error* error) {
  return guarded(error, [&] {
    const char* const where = "graft_session_run_async";
    GRAFT_USER_CHECK(session && done, kInvalidArgument, "the session or the function that is told the end is NULL",
                     where);
    GRAFT_USER_CHECK((inputs || input_count == 0) && (outputs || output_count == 0), kInvalidArgument,
                     "NULL with a count that is not 0", where);
    session->open_queue().add(
        Call{session, inputs, input_count, outputs, output_count, allocator, done, context}, run);
  });
}

void graft_session_cancel(graft_session* session) {
  if (!session) return;
  if (RunQueue* const runs = session->queue.load()) runs->cancel_all();
  session->stop();
}

void graft_session_cancel_run(graft_session* session, uint64_t run) {
  RunQueue* const runs = session ? session->queue.load() : nullptr;
  if (runs) runs->cancel(run, [session] { session->stop(); });
}

void graft_session_destroy(graft_session* session) {
  RunQueue* const runs = session ? session->queue.load() : nullptr;
  if (runs && runs->inside()) return runs->finish_inside([session] { delete session; });
  delete session;
}

}  // extern "C"
