// SPDX-License-Identifier: Apache-2.0
// A plan of cuDNN for a graph of operations.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "library/cudnn/api.h"
#include "library/cudnn/operation_graph.h"
#include "library/stream_handles.h"

namespace graft::cudnn {

/// Ready to run on one stream; one thread at a time.
class Plan {
 public:
  using MakeGraph = std::function<OperationGraph(cudnnHandle_t handle)>;

  /// The `choice`-th plan by cuDNN's own preference among those that it supports and that keep the numbers of the type:
  /// no transforms of Winograd or Fourier, and for f32 no tensor cores (which round to tf32) unless `tf32`. Throws
  /// Error{unsupported} when there are not so many.
  Plan(const MakeGraph& make, DType type, bool tf32, int choice, void* stream);

  int64_t workspace_bytes() const { return workspace_; }
  /// Puts the work into the stream. Returns 0 or cuDNN's status.
  int run(void* const* buffers, void* workspace);
  /// Which plan of how many.
  const std::string& implementation() const { return implementation_; }

 private:
  /// A tensor of the graph that a run gives an address.
  struct Place {
    int buffer = -1;
    int64_t bytes = 0;  ///< where in the buffer it begins
  };

  void choose(int choice, bool strict);

  StreamHandles<cudnnHandle_t>::Shared handle_;
  OperationGraph graph_;
  std::unique_ptr<Descriptor> plan_;
  std::vector<Place> places_;  ///< by identity in the graph, from 1 on
  int64_t workspace_ = 0;
  std::string implementation_;
  // The last run's addresses, and what cuDNN takes them in.
  std::vector<void*> addresses_;
  std::unique_ptr<Descriptor> addresses_pack_;
  void* packed_workspace_ = nullptr;
};

}  // namespace graft::cudnn
