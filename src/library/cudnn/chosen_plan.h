// SPDX-License-Identifier: Apache-2.0
// A plan of cuDNN for a call, chosen among those that it proposes.
#pragma once

#include <memory>
#include <string>

#include "library/cudnn/api.h"
#include "library/cudnn/operation_graph.h"
#include "library/stream_handles.h"

namespace graft::cudnn {

/// What runs of the same call in the same stream share. Making one compiles kernels, which takes tenths of a second.
struct ChosenPlan {
  StreamHandles<cudnnHandle_t>::Shared handle;
  OperationGraph graph;
  std::unique_ptr<Descriptor> plan;
  int64_t workspace = 0;       ///< bytes
  std::string implementation;  ///< which plan of how many
};

/// The `choice`-th plan by cuDNN's own preference among those that it supports and that keep the numbers of the call's
/// type: no transforms of Winograd or Fourier, and for f32 no tensor cores (which round to tf32) unless the call may.
/// `call`: its text, with concrete sizes. The same plan as long as someone holds it. Throws Error{unsupported} when
/// there are not so many. Thread-safe.
std::shared_ptr<const ChosenPlan> choose_plan(const std::string& call, int choice, void* stream);

}  // namespace graft::cudnn
