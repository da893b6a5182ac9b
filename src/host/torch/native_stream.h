// SPDX-License-Identifier: Apache-2.0
// The driver's handle of the stream in which torch queues its work.
#pragma once

#include <c10/core/Device.h>

namespace graft::torchscript {

/// The handle (cudaStream_t) of torch's current stream of the calling thread on a GPU; null is the legacy default
/// stream. Throws std::exception where torch has no CUDA.
void* native_stream(c10::Device gpu);

}  // namespace graft::torchscript
