// SPDX-License-Identifier: Apache-2.0
// Engines of a process: nodes that hold the same plan share one, whichever session or function they belong to.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "graft/graft_c.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graft::tensorflow_host {

/// Immutable, and usable from any number of threads at the same time.
class Engine {
 public:
  /// The engine of a plan on a device; loads it unless somebody has it.
  static absl::StatusOr<std::shared_ptr<Engine>> of(std::string_view plan, const std::string& device);
  Engine(graft_engine* handle, std::string_view plan, std::string device)
      : handle_(handle, graft_engine_release), plan_(plan), device_(std::move(device)) {}

  const graft_engine* handle() const { return handle_.get(); }
  /// Runs once: inputs where they lie, outputs from the context's allocator. A call that is cancelled ends the run.
  absl::Status run(tensorflow::OpKernelContext& context);

 private:
  using Session = std::unique_ptr<graft_session, void (*)(graft_session*)>;
  bool is_of(std::string_view plan, const std::string& device) const { return plan == plan_ && device == device_; }
  absl::StatusOr<Session> take_session();
  void give_back(Session session);
  absl::StatusOr<std::vector<graft_tensor>> views_of(tensorflow::OpKernelContext& context,
                                                     std::vector<std::vector<int64_t>>& shapes) const;

  std::unique_ptr<graft_engine, void (*)(graft_engine*)> handle_;
  std::string_view plan_;  ///< its bytes, which the handle keeps
  std::string device_;
  std::mutex mutex_;
  std::vector<Session> free_;  ///< of calls that have ended
};

/// What went wrong, in TensorFlow's kinds.
absl::Status status_of(graft_status status, const graft_error& error);

}  // namespace graft::tensorflow_host
