// SPDX-License-Identifier: Apache-2.0
// Products of weights that are stored as codes, on a CPU.
#pragma once

#include "strategy/strategy.h"

namespace graft::tile {

/// Panels of `n` columns. Up to `rows` rows multiply the codes themselves; more, in tiles of `m` of at most `m_chunk`
/// together, share what is decoded of `k` steps of the first reduced axis at a time.
struct DecodeSchedule {
  int64_t rows = 4;
  int64_t m = 56;
  int64_t n = 64;
  int64_t k = 16;
  int64_t m_chunk = 224;

  static constexpr Member<DecodeSchedule> kMembers[] = {{"rows", &DecodeSchedule::rows, 1, 16},
                                                        {"m", &DecodeSchedule::m, 1, 1024},
                                                        {"n", &DecodeSchedule::n, 1, 4096},
                                                        {"k", &DecodeSchedule::k, 1, 1 << 20},
                                                        {"m_chunk", &DecodeSchedule::m_chunk, 1, 1 << 14}};
  static const Strategy& strategy();
};

Lowered lower_decoded(const Region& region, const Layouts& layouts, const DecodeSchedule& schedule,
                      const Target& target);

/// Why a product's weights are not decoded by whoever multiplies them, or an empty text. `constant[t]`: region tensor t
/// is known when compiling.
std::string why_not_decoded(const Region& region, const std::vector<bool>& constant);

}  // namespace graft::tile
