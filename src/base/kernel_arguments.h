// SPDX-License-Identifier: Apache-2.0
// How a CPU kernel is called: the border between generated code and the runtime.
#pragma once

#include <cstdint>
#include <string>

namespace graft {

/// What a CPU kernel is called with. Kernels are `int32_t name(const KernelArguments*, int64_t begin, int64_t end)`:
/// they run the grid points begin..end-1 (row-major flattened) and return 0. Points may run on any thread at once.
struct KernelArguments {
  void* const* buffers;   ///< one per kGlobal buffer of the program, in order
  const int64_t* sizes;   ///< one per Program::sizes, in order
  void* scratch;          ///< scratch bytes of this thread's own, 64-byte aligned
  int64_t* status;        ///< [0]: set to an ElementFault when an element fails, [1]: the offending value; written
                          ///< racily, the first error is good enough. Whoever sets [0] meanwhile has loops of many
                          ///< turns end early
};

/// What an element can fail with: the checks among the intrinsics.
enum class ElementFault : int64_t { kIndex = 1, kDivisor = 2 };

/// What a user reads of it: "index 7 is out of range".
std::string text_of(ElementFault fault, int64_t value);

using KernelFunction = int32_t (*)(const KernelArguments*, int64_t begin, int64_t end);

}  // namespace graft
