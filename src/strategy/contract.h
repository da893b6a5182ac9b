// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions on a CPU.
#pragma once

#include "strategy/strategy.h"

namespace graft::tile {

/// A matrix product by tiles of `m` rows and `n` columns; the reduction in pieces of `k` (0: whole).
struct ContractSchedule {
  int64_t m = 56;
  int64_t n = 64;
  int64_t k = 0;
  int64_t m_chunk = 0;                 ///< rows handled by one grid point (0: as `m`); more amortise a packed operand
  int64_t panel = 32;                  ///< lanes of one packed panel of a constant right operand; 0: it stays as it is
  int64_t columns_outer = 1;           ///< grid order: all rows of a column tile first
  const ContractUnit* unit = nullptr;  ///< what multiplies; null: multiply-adds of the sums' own type
  /// 1: of a convolution, what the windows of a tile read is copied once, instead of each row with all of its taps
  int64_t window = 0;
  int64_t n_chunk = 0;  ///< columns handled by one grid point (0: as `n`); more amortise a copied left operand
  bool operator==(const ContractSchedule&) const = default;

  static constexpr Member<ContractSchedule> kMembers[] = {{"m", &ContractSchedule::m, 1, 1024},
                                                          {"n", &ContractSchedule::n, 1, 4096},
                                                          {"k", &ContractSchedule::k, 0, 1 << 20},
                                                          {"m_chunk", &ContractSchedule::m_chunk, 0, 1 << 20},
                                                          {"panel", &ContractSchedule::panel, 0, 256},
                                                          {"columns_outer", &ContractSchedule::columns_outer, 0, 1},
                                                          {"window", &ContractSchedule::window, 0, 1, true},
                                                          {"n_chunk", &ContractSchedule::n_chunk, 0, 1 << 20, true}};
  static const Strategy& strategy();
};

Lowered lower_contract(const Region& region, const Layouts& layouts, const ContractSchedule& schedule,
                       const Target& target);

}  // namespace graft::tile
