// SPDX-License-Identifier: Apache-2.0
// The kernels with which a GPU decides what of a recorded graph runs next (CUDA's conditional nodes).
#pragma once

#include "device/cuda/driver.h"

namespace graft::cuda {

/// Functions of one module, each of one thread but the last. `count` is a RoundCount, flags are bytes.
struct Decisions {
  Handle decide = nullptr;         ///< (u64 handle of a node, flag, u32 wanted)
  Handle set_count = nullptr;      ///< (count, s64 round, s64 limit, condition)
  Handle count_round = nullptr;    ///< (count, condition)
  Handle copy_of_round = nullptr;  ///< (to, from, s64 bytes, count), of any blocks
};

/// Those in the context, loaded once per process and kept; null where the driver has no conditional nodes (before CUDA
/// 12.4) or cannot translate PTX. The context has to be current. Thread-safe.
const Decisions* decisions_in(Handle context);

}  // namespace graft::cuda
