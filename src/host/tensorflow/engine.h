// SPDX-License-Identifier: Apache-2.0
// Engines of a process: nodes that hold the same plan share one, whichever session or function they belong to.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graft/graft.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graft::tensorflow_host {

/// Where a plan lies: in the graph, or in a file (then `bytes` is empty).
struct PlanSource {
  std::string_view bytes;
  std::string path = {};
  bool operator==(const PlanSource&) const = default;
};

/// Immutable, and usable from any number of threads at the same time.
class Engine {
 public:
  /// The engine of a plan on a device; loads it unless somebody has it.
  static absl::StatusOr<std::shared_ptr<Engine>> of(const PlanSource& plan, const std::string& device);
  Engine(graft_engine* handle, PlanSource plan, std::string device)
      : sessions_(graft::Engine(handle)), plan_(std::move(plan)), device_(std::move(device)) {}

  const graft_engine* handle() const { return sessions_.engine().handle(); }
  /// Runs once on the first `inputs` inputs where they lie, outputs from the context's allocator. A call that is
  /// cancelled ends the run.
  absl::Status run(tensorflow::OpKernelContext& context, int inputs);

 private:
  bool is_of(const PlanSource& plan, const std::string& device) const { return plan == plan_ && device == device_; }
  absl::StatusOr<SessionPool::Taken> take_session();
  absl::StatusOr<std::vector<graft_tensor>> views_of(tensorflow::OpKernelContext& context, int inputs,
                                                     std::vector<std::vector<int64_t>>& shapes) const;

  SessionPool sessions_;
  PlanSource plan_;  ///< its bytes are those that the engine keeps
  std::string device_;
};

/// What went wrong, in TensorFlow's kinds.
absl::Status status_of(graft_status status, std::string_view message);

}  // namespace graft::tensorflow_host
