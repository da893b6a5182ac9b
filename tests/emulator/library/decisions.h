// SPDX-License-Identifier: Apache-2.0
// Conditional nodes: their values, and the kernels of src/device/cuda/decisions.cpp that set them, which come as PTX.
#pragma once

#include <string>

#include "device/interface.h"

namespace graft::emulator {

using ConditionalHandle = unsigned long long;

ConditionalHandle make_conditional(unsigned value);
/// Null for a handle that was never made.
unsigned* conditional_value(ConditionalHandle handle);

/// Whether an image is PTX: of such the emulator knows those kernels alone.
bool is_ptx(const char* image);
/// Null where it is none of them.
const graft_kernel* find_decision(const std::string& name);

}  // namespace graft::emulator
