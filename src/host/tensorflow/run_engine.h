// SPDX-License-Identifier: Apache-2.0
// Engines on TensorFlow's tensors.
#pragma once

#include "loaded_engine.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graft::tensorflow_host {

/// Runs once on the first `inputs` inputs where they lie, outputs from the context's allocator. A call that is
/// cancelled ends the run; on a GPU the memory is the session's per_process_gpu_memory_fraction.
absl::Status run_engine(LoadedEngine& engine, tensorflow::OpKernelContext& context, int inputs);

/// What went wrong, in TensorFlow's kinds.
absl::Status status_of(const Error& failure);

/// What `make` gives, or what it throws.
template <class Make>
auto caught(const Make& make) -> absl::StatusOr<decltype(make())> {
  try {
    return make();
  } catch (const Error& failure) {
    return status_of(failure);
  }
}

}  // namespace graft::tensorflow_host
