// SPDX-License-Identifier: Apache-2.0
// CUDA C++ with inline PTX -> C++ that a host compiler takes, after device/cuda.h. All but three things stays as it is.
#pragma once

#include <string>

namespace graft::emulator {

/// `asm("op.type %0, [%1];" : "=r"(a) : "l"(b))` -> a block that calls graft_ptx::op_type(o0, address(o1)), so that the
/// operands and their order are what the text of the instruction says; `extern __shared__ T name[]` -> a pointer to the
/// block's memory; and for each kernel an entry that the driver finds by name. Throws std::runtime_error.
std::string translate(const std::string& source);

}  // namespace graft::emulator
