// SPDX-License-Identifier: Apache-2.0
// What lowerings of a product by tiles on a CPU share: which axes the grid fixes and which run inside of a tile, the
// tiles in scratch, and the maps behind the product, which run on its tile.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuse/contraction.h"
#include "tile/builder.h"

namespace graft::tile {

using Replacements = std::vector<std::pair<int, Expr>>;

/// One tiled role of the contraction (rows or columns): which axes the grid fixes, which run inside the tile.
struct Tiling {
  std::vector<graft::Axis> outer;    ///< fixed by the grid, one point each
  std::optional<graft::Axis> split;  ///< cut into tiles of `step`; none: there is one row
  Size step = 1, tiles = 1;
  std::vector<graft::Axis> whole;  ///< inside the tile from 0 to their extent
  int64_t bound = 1;               ///< of the split part inside a tile
};

/// The scratch position of a point of a tile: row-major over the tile's axes.
Expr flattened(const std::vector<Axis>& axes);
Size whole_extent(const std::vector<graft::Axis>& axes);
/// Several axes that are dense in scratch, as one.
Axis flat_axis(const std::vector<Axis>& axes);
Expr ceil_div_expr(const Expr& a, const Expr& b);

/// The frame of one lowering.
class ContractTiles {
 protected:
  ContractTiles(const Region& region, const Layouts& layouts, const Target& target)
      : region_(region), layouts_(layouts), target_(target), builder_(region, layouts) {}

  /// Finds the only contraction of the region, maps behind it. Gives the reason why there is none, or nothing.
  std::string find_main();
  /// Why the maps cannot run on tiles of the contraction, or nothing.
  std::string why_not_on_tiles() const;

  /// Rows: the innermost m axis is cut into nearly equal tiles of at most `most`; when it is shorter, several of its
  /// rows make a tile.
  Tiling tile_rows(int64_t most) const;
  /// Columns: tiles of `most` lanes; when the innermost n axis is shorter and `joins`, several of its rows make a tile.
  Tiling tile_columns(int64_t most, bool joins) const;
  /// The grid stands for these axes.
  void fix(const std::vector<graft::Axis>& axes);

  /// Scratch for what every form defines, rows of `lanes`, but for results of maps, which go where they belong.
  void place_tiles(const Size& lanes);
  std::optional<int> tile_of(int tensor) const;
  /// Rows of a tile at most.
  Size row_bound() const { return Size(rows_.bound) * whole_extent(rows_.whole); }
  /// What a tile holds of the contraction's result: a unit leaves its own sums there.
  DType sum_type(int result) const { return unit_ ? unit_->sum : region_.tensors[result].type; }

  /// One pass over a tile: its axes and what the region's variables are at a point of it.
  struct Pass {
    std::vector<Axis> m, n;
    Replacements at;
    std::vector<Expr> position;  ///< in scratch tiles
  };
  Pass make_pass() const;

  /// Fills the tile of the contraction's result with zeros.
  Statement clear_tile() const;
  /// A map over the tile; loads of the region's own tensors read the tile.
  void add_epilogue(const Form& form, Body& body) const;

  const Region& region_;
  const Layouts& layouts_;
  const Target& target_;
  ProgramBuilder builder_;
  const graft::Reduce* main_ = nullptr;
  Contraction contraction_;
  const ContractUnit* unit_ = nullptr;
  Tiling rows_, columns_;
  Replacements replacements_;                    ///< of axes that the grid stands for
  Expr column_tile_, row_begin_, row_end_;       ///< where the tile lies
  std::vector<std::pair<int, int>> tiles_;       ///< region tensor -> scratch tile

 private:
  bool is_result_axis(const graft::Axis& axis) const;
  bool reads_elsewhere(const Form& form) const;
  Expr load_sum(int result, const std::vector<Expr>& position) const;
  Expr on_tile(const Expr& e, const Pass& pass) const;
};

}  // namespace graft::tile
