// SPDX-License-Identifier: Apache-2.0
// Asynchronous runs in C++, with a future or a function that is told the end.
//
//   std::future<graft::RunResult> future =
//       graft::run_async(session, {graft::view("x", x.data(), {1, 4})}, {{.name = "y"}});
//   if (const graft::RunResult result = future.get(); result.status.ok()) use(result.outputs[0]);
#pragma once

#include <future>

#include "graft/graft.h"

namespace graft {
inline namespace api {

/// What an asynchronous run gives.
struct RunResult {
  Status status;
  /// Those that were asked for; type, shape and data are filled in. Of a failed run their contents are undefined.
  std::vector<TensorView> outputs;
  std::vector<std::shared_ptr<void>> memory;  ///< of outputs that came without any; copies of the result share it
};

namespace detail {

/// An asynchronous run on its way.
struct AsyncRun {
  std::vector<TensorView> inputs;
  RunResult result;
  Allocator allocator;
  std::function<void(RunResult)> done;
  std::vector<graft_tensor> given = {}, wanted = {};
  graft_allocator forward = {};

  /// Describes the tensors. Outputs on the host that have neither memory nor an allocator get theirs from the result.
  const graft_allocator* prepare() {
    bool on_device = false;
    for (const TensorView& input : inputs) given.push_back(describe(input));
    for (TensorView& output : result.outputs) {
      output.value = {};
      wanted.push_back(describe(output));
      on_device = on_device || (!output.data && output.device == GRAFT_CUDA);
    }
    if (!allocator && on_device) return nullptr;
    if (!allocator) allocator = [this](int, DataType, std::span<const int64_t>, size_t bytes) { return keep(bytes); };
    forward = {allocate_by, &allocator};
    return &forward;
  }
  void* keep(size_t bytes) {
    constexpr std::align_val_t kAlignment{64};
    void* const memory = ::operator new(bytes > 0 ? bytes : 1, kAlignment);
    result.memory.emplace_back(memory, [](void* kept) { ::operator delete(kept, kAlignment); });
    return memory;
  }
  /// Strings lie in the session until its next run, which may be waiting already.
  void keep_strings() {
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i].dtype != GRAFT_STRING || wanted[i].value) continue;
      const auto copy = std::make_shared<Value>(Value::tensor(result.outputs[i]));
      result.outputs[i].data = copy->tensor().data;
      result.memory.push_back(copy);
    }
  }
  void end(Status status) {
    try {
      if (status.ok()) take_outputs(wanted, result.outputs);
      if (status.ok()) keep_strings();
    } catch (const Error& error) {
      status = {error.kind(), error.what()};
    } catch (const std::bad_alloc&) {
      status = {ErrorKind::kOutOfMemory, "there is no memory for the results"};
    }
    result.status = std::move(status);
    done(std::move(result));
  }
  static void finish(void* context, graft_status status, const char* message) {
    const std::unique_ptr<AsyncRun> run(static_cast<AsyncRun*>(context));
    run->end(status == GRAFT_OK ? Status() : Status(static_cast<ErrorKind>(status), message));
  }
};

}  // namespace detail

/// Runs on the session's own thread, after the asynchronous runs before it, and calls `done` there when the outputs
/// are written; graft_session_run_async says what other calls of the session do meanwhile, and what its end does. The
/// memory of inputs and of outputs with data has to stay until then. Outputs without data get it from `allocator`, or,
/// when that is empty, from the result (on a GPU from the session, until its next run). `done` must not throw. Of a run
/// that cannot begin, the status says why, and `done` is not called.
inline Status run_async(Session& session, std::vector<TensorView> inputs, std::vector<TensorView> outputs,
                        std::function<void(RunResult)> done, Allocator allocator = {}) {
  auto run = std::make_unique<detail::AsyncRun>(
      detail::AsyncRun{std::move(inputs), {.outputs = std::move(outputs)}, std::move(allocator), std::move(done)});
  const graft_allocator* const memory = run->prepare();
  graft_error error;
  const graft_status status = graft_session_run_async(
      session.handle(), run->given.data(), run->given.size(), run->wanted.data(), run->wanted.size(), memory,
      detail::AsyncRun::finish, run.get(), nullptr, &error);
  if (status != GRAFT_OK) return {static_cast<ErrorKind>(status), error.message};
  static_cast<void>(run.release());  // its end deletes it
  return {};
}

/// The same with a future, which does not throw: the result has the status.
inline std::future<RunResult> run_async(Session& session, std::vector<TensorView> inputs,
                                        std::vector<TensorView> outputs, Allocator allocator = {}) {
  const auto promise = std::make_shared<std::promise<RunResult>>();
  std::future<RunResult> future = promise->get_future();
  const std::function<void(RunResult)> done = [promise](RunResult result) { promise->set_value(std::move(result)); };
  Status status = run_async(session, std::move(inputs), std::move(outputs), done, std::move(allocator));
  if (!status.ok()) promise->set_value({.status = std::move(status), .outputs = {}, .memory = {}});
  return future;
}

}  // namespace api
}  // namespace graft
