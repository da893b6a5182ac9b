// SPDX-License-Identifier: Apache-2.0
// An instance of a model: a session of the engine, and how requests become runs of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model.h"
#include "request.h"
#include "watch.h"

namespace graft::triton {

/// Used by one thread at a time.
class Instance {
 public:
  Instance(TRITONBACKEND_ModelInstance* instance, Model& model);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// Answers and releases all of the requests; never throws.
  void execute(std::span<TRITONBACKEND_Request* const> requests) noexcept;

 private:
  using Group = std::span<Request* const>;
  struct Joined {
    std::vector<std::byte> bytes;
    std::vector<graft_text> texts;
    std::vector<int64_t> shape;
  };
  struct Allocation;
  struct Times {
    uint64_t begin = 0, compute_begin = 0, compute_end = 0;
  };

  void read(Request& place, TRITONBACKEND_Request* request);
  void run_groups(Times& times);
  void run_group(Group group, Times& times);
  void run_alone(Request& request, Times& times);
  Status run(Group group, const graft_allocator* allocator, Times& times);
  void bind_inputs(Group group);
  void* join(Group group, size_t input);
  void bind_outputs(Group group);
  void split(Group group);
  void give(Request& request, int64_t first_row, int64_t all_rows);
  Status limit_time(Group group);
  void log_run(std::span<TRITONBACKEND_Request* const> requests, int64_t rows, uint64_t nanoseconds,
               std::string_view status, std::string_view message);
  void release(std::span<TRITONBACKEND_Request* const> requests, const Times& times);

  TRITONBACKEND_ModelInstance* const handle_;
  Model& model_;
  const bool gpu_;
  Session session_;
  Watch::Seat seat_;
  double deadline_ = 0;          ///< of the session, in seconds
  double arena_bytes_ = 0;       ///< as the metrics have it

  // Kept, so that a call allocates nothing.
  std::vector<Request> requests_;
  std::vector<Request*> pending_;
  std::vector<TRITONBACKEND_Request*> running_;
  std::vector<Joined> joined_;
  std::vector<graft_tensor> inputs_, outputs_;
  std::vector<size_t> ports_;  ///< of outputs_: which of the engine's
};

}  // namespace graft::triton
