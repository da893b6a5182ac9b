// SPDX-License-Identifier: Apache-2.0
// Schedules: typed records of how a region becomes a kernel. They print, parse and hash; they are what is tuned,
// cached and stored in plans. lower() checks every one, whatever its source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "target/units.h"

namespace graft::tile {

/// Loops over the common axes of all forms, one grid point per row or per `chunk` elements.
struct NestSchedule {
  int64_t chunk = 4096;  ///< elements of the innermost axis in one grid point of a pure map
  int64_t lanes = 64;    ///< columns handled together when a reduction runs down columns; 1: one row a grid point
  bool operator==(const NestSchedule&) const = default;
};

/// A matrix product by tiles of `m` rows and `n` columns; the reduction in pieces of `k` (0: whole).
struct ContractSchedule {
  int64_t m = 56;
  int64_t n = 64;
  int64_t k = 0;
  int64_t m_chunk = 0;        ///< rows handled by one grid point (0: as `m`); more amortise a packed operand
  int64_t panel = 32;         ///< lanes of one packed panel of a constant right operand; 0: it stays as it is
  bool columns_outer = true;  ///< grid order: all rows of a column tile first
  const ContractUnit* unit = nullptr;  ///< what multiplies; null: multiply-adds of the sums' own type
  /// 1: of a convolution, what the windows of a tile read is copied once, instead of each row with all of its taps
  int64_t window = 0;
  bool operator==(const ContractSchedule&) const = default;
};

/// Attention with online softmax: tiles of `queries` rows against `keys` columns at a time.
struct AttentionSchedule {
  int64_t queries = 32;
  int64_t keys = 64;
  bool operator==(const AttentionSchedule&) const = default;
};

/// The common axes of all forms cut into tiles, one for each block of a GPU: of the last axis `x` elements, of the ones
/// before it `y` and `z` (0: whole). What is tiled is dealt to the threads.
struct BlockSchedule {
  int64_t z = 1;
  int64_t y = 1;
  int64_t x = 1;
  int64_t warps = 8;
  bool operator==(const BlockSchedule&) const = default;
};

/// A matrix product on a GPU: a block of `threads` makes a tile of `m` x `n`, in steps of `k` elements of the
/// reduction, of which `stages` pass through shared memory at a time.
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
  bool operator==(const ProductSchedule&) const = default;
};

/// A window that slides over a tensor, on a CPU: a grid point makes `rows` by `columns` points for `lanes` channels,
/// `points` of a row side by side in registers.
struct WindowSchedule {
  int64_t rows = 4;
  int64_t columns = 28;
  int64_t lanes = 32;
  int64_t points = 7;
  bool operator==(const WindowSchedule&) const = default;
};

/// A product of weights that are stored as codes, on a CPU: panels of `n` columns. Up to `rows` rows multiply the codes
/// themselves; more, in tiles of `m` of at most `m_chunk` together, share what is decoded of `k` steps of the first
/// reduced axis at a time.
struct DecodeSchedule {
  int64_t rows = 4;
  int64_t m = 56;
  int64_t n = 64;
  int64_t k = 16;
  int64_t m_chunk = 224;
  bool operator==(const DecodeSchedule&) const = default;
};

using Schedule = std::variant<NestSchedule, ContractSchedule, AttentionSchedule, BlockSchedule, ProductSchedule,
                              WindowSchedule, DecodeSchedule>;

/// `contract m=56 n=64 k=0 m_chunk=0 panel=32 columns_outer=1`, with ` unit=amx_u8s8` where there is one;
/// parse_schedule reads it back and throws invalid_argument naming an unknown or out-of-range field.
std::string print(const Schedule& schedule);
Schedule parse_schedule(std::string_view text);

}  // namespace graft::tile
