// SPDX-License-Identifier: Apache-2.0
#include "driver/device_memory.h"

#include "base/run_limits.h"
#include "device/cuda/describe_gpus.h"
#include "driver/compile_options.h"

namespace graft {

uint64_t device_memory(std::string_view device) {
  const int gpu = gpu_of(device);
  return gpu < 0 ? static_cast<uint64_t>(machine_memory()) : memory_of_gpu(gpu);
}

}  // namespace graft
