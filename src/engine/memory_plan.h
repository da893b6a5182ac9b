// SPDX-License-Identifier: Apache-2.0
// Where the tensors of one run lie in the arena.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace graft {

/// A tensor that needs `bytes` from the step that writes it first to the one that reads it last, both included.
struct Lifetime {
  int64_t bytes = 0;
  int first_step = 0, last_step = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  ///< one per lifetime, 64-byte aligned
  int64_t bytes = 0;             ///< of the arena
};

/// Greedy by size, each tensor in the smallest gap among those that live at the same time; or, when that takes more
/// than what lives at one step, from both ends in the order of the steps where that succeeds. Deterministic. Throws
/// out_of_memory for sizes that no machine has.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);
/// True when no two tensors that live at the same time overlap and all lie inside the arena.
bool is_sound(const MemoryPlan& plan, std::span<const Lifetime> lifetimes);

}  // namespace graft
