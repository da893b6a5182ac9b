// SPDX-License-Identifier: Apache-2.0
// Attention with an online softmax.
#pragma once

#include "strategy/strategy.h"

namespace graft::tile {

/// Tiles of `queries` rows against `keys` columns at a time.
struct AttentionSchedule {
  int64_t queries = 32;
  int64_t keys = 64;

  static constexpr Member<AttentionSchedule> kMembers[] = {{"queries", &AttentionSchedule::queries, 1, 512},
                                                           {"keys", &AttentionSchedule::keys, 1, 1024}};
  static const Strategy& strategy();
};

Lowered lower_attention(const Region& region, const AttentionSchedule& schedule, const Target& target);

}  // namespace graft::tile
