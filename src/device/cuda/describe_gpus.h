// SPDX-License-Identifier: Apache-2.0
// What `graft env` says of this machine's GPUs, and how much memory they have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace graft {

/// `CUDA 13.0, 580.159.04, /usr/lib/x86_64-linux-gnu/libcuda.so.1`; or, when there is none, `none: ` and the sentence
/// of why_no_cuda_device.
std::string describe_cuda_driver();

/// A line for each GPU, in the driver's order: `sm_90a, NVIDIA H200, 132 multiprocessors, 150.1 GB`. Empty without any.
std::vector<std::string> describe_gpus();

/// The number of the first GPU of an architecture (`sm_90a`); -1 where none is here.
int find_gpu(const std::string& architecture);

/// All the memory of a GPU, in bytes. Throws the error `device` where it cannot be used.
uint64_t memory_of_gpu(int ordinal);

}  // namespace graft
