// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions on a GPU.
#pragma once

#include "strategy/strategy.h"

namespace graft::tile {

/// A matrix product: a block of `threads` makes a tile of `m` x `n`, in steps of `k` elements of the reduction, of
/// which `stages` pass through shared memory at a time.
struct ProductSchedule {
  int64_t m = 128;
  int64_t n = 128;
  int64_t k = 64;
  int64_t threads = 256;
  int64_t stages = 4;
  int64_t panel = 64;     ///< lanes of one packed panel of a constant right operand; 0: it stays as it is
  int64_t producers = 0;  ///< threads beside those, which only copy; 0: all threads do both
  int64_t teams = 1;      ///< of `threads` that make tiles by turns, where there are producers
  int64_t group = 1;      ///< rows of tiles whose columns are made together, so that their operands stay in a cache
  int64_t split = 1;      ///< blocks that share the reduction of one tile, where there are producers
  int64_t early = 0;      ///< 1: tiles of constants are on their way before earlier kernels have ended
  const ContractUnit* unit = nullptr;  ///< one that splits operands; null: what is usual for their types
  bool operator==(const ProductSchedule&) const = default;

  static constexpr Member<ProductSchedule> kMembers[] = {{"m", &ProductSchedule::m, 16, 512},
                                                         {"n", &ProductSchedule::n, 16, 512},
                                                         {"k", &ProductSchedule::k, 8, 1024},
                                                         {"threads", &ProductSchedule::threads, 32, 1024},
                                                         {"stages", &ProductSchedule::stages, 2, 16},
                                                         {"panel", &ProductSchedule::panel, 0, 256},
                                                         {"producers", &ProductSchedule::producers, 0, 128},
                                                         {"teams", &ProductSchedule::teams, 1, 4},
                                                         {"group", &ProductSchedule::group, 1, 64},
                                                         {"split", &ProductSchedule::split, 1, 8},
                                                         {"early", &ProductSchedule::early, 0, 1}};
  static const Strategy& strategy();
};

Lowered lower_product(const Region& region, const Layouts& layouts, const ProductSchedule& schedule,
                      const Target& target);

}  // namespace graft::tile
