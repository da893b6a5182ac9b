// SPDX-License-Identifier: Apache-2.0
// Where kernels of the host come from that stand on a library: modules, opened when a network needs them.
#pragma once

#include <string>

#include "kernels/host_kernel.h"

namespace graft {

/// Finds what makes the kernels of modules. Thread-safe.
HostKernelSource host_kernel_source();
/// Empty when the module of a kernel is there and open, else what is missing. Thread-safe.
std::string why_no_host_kernel(const HostKernelInfo& kernel);

}  // namespace graft
