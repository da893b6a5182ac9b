// SPDX-License-Identifier: Apache-2.0
// How a region becomes a grid of points that run its forms one after the other: shared by the general strategy
// (lower_nest.cpp) and by tiles for the threads of a block (lower_block.cpp).
#pragma once

#include "strategy/block.h"
#include "strategy/nest.h"
#include "tile/builder.h"

namespace graft::tile {

using Replacements = std::vector<std::pair<int, Expr>>;

/// One region on its way; run() once.
class NestLowering {
 public:
  /// `lanes`: of the vectors of a CPU.
  NestLowering(const Region& region, int threads, const Layouts& layouts = {}, int64_t lanes = 0);
  /// One grid point per row, or per part of the last axis.
  Lowered run(const NestSchedule& schedule);
  /// One grid point per tile of the last axes.
  Lowered run(const BlockSchedule& schedule);

 private:
  struct Tiled {
    int variable = -1;  ///< of the region
    Axis local;         ///< its part of a grid point
    Expr index;         ///< the element in terms of the tile and the local variable
    Expr tile;          ///< the tile's number: a variable until the grid has an axis for it; null: one tile
    Size tiles;
    size_t position = 0;  ///< of the common axes that are not tiled, so many come before it
  };
  Lowered finish();
  /// Grid axes for whole axes and for tiles: on a CPU in the order of the axes, on a GPU tiles last.
  void add_grid_axes();
  void place_tile(Tiled& tiled);
  bool is_pure_map() const;
  /// Whether all forms are maps, each over the common axes and perhaps others.
  bool is_chain_of_maps() const;
  /// Whether there is nothing but recurrences, and maps that store in their place.
  bool is_pure_scan() const;
  /// A common axis -> grid of tiles x local axis of at most `tile` elements (0: whole); axes from the last on.
  void split(size_t position, int64_t tile);
  void add_grid_axis(const graft::Axis& axis);
  bool in_grid(int variable) const;
  /// Scratch for tensors that are neither inputs nor outputs: their dimensions inside a grid point.
  void place_intermediates();
  const Tiled* find_tiled(int variable) const;
  /// The axes that a form runs over inside a grid point, with fresh variables in `into`; a lane axis comes last.
  std::vector<Axis> own_axes(const std::vector<graft::Axis>& axes, Replacements& into);
  /// Region expression -> buffer expression of this grid point. Scratch tensors are indexed by the lane within the
  /// tile, global ones by the element.
  Expr convert(const Expr& e, const Replacements& own) const;
  Store store_to(int tensor, const std::vector<graft::Axis>& axes, const Replacements& own, const Expr& value,
                 const std::vector<Expr>& extra = {}) const;
  void lower(const Compute& form);
  /// The value with loads that are contiguous along another axis than the last replaced by loads of a tile, which is
  /// filled beforehand along the axis in which the load is contiguous.
  Expr stage_transposed(const std::vector<Axis>& axes, const Expr& value);
  /// tile[others..., last, along] = load, with the threads going along `along`; returns the load of the tile.
  Expr stage(const std::vector<Axis>& axes, size_t along, const Expr& load);
  void lower(const graft::Reduce& form);
  /// One statement; a map that only moves or changes what the scan gives stores in its place.
  void lower(const graft::Scan& form);
  /// On a GPU without tiles, for t: new state from old; emit; old = new. Two copies of the state, so that a step reads
  /// only old values.
  void scan_in_steps(const graft::Scan& form);
  struct Folded {
    int tensor = -1;
    const Compute* user = nullptr;
  };
  std::optional<const Compute*> find_folded(int tensor) const;
  /// The user's store, at the element that the scan is at.
  Store store_of_user(const graft::Scan& form, size_t output, const Compute* user, const Replacements& own) const;
  /// Tensors of scans that a single map reads, each element once where the map is at: the map becomes the scan's store.
  void find_folded_users();
  const Compute* only_user(int tensor, size_t rank) const;
  bool is_folded(const Form& form) const;
  static std::optional<Size> size_of(const Expr& extent);
  void lower(const Scatter& form);
  /// The part of a scatter's result that one grid point makes: it goes over all updates and takes those of its own
  /// rows, which lie at `leading` and from `begin` on along the axis behind.
  struct OwnedRows {
    std::vector<Expr> leading;
    Expr begin, end;
    int64_t most = 0;
  };
  std::optional<OwnedRows> share_rows(const Scatter& form);
  std::optional<OwnedRows> share_ordered(const Shape& shape);
  static Expr is_owned(const OwnedRows& owned, const std::vector<Expr>& indices);
  void copy_base(const Scatter& form, const std::optional<OwnedRows>& owned);
  /// Maps that only make what a scatter begins with are stored where its result goes.
  void find_folded_bases();
  /// Rows are copied to scratch with their positions, sorted there, and the kept ranks copied out.
  void lower(const Sort& form);
  void lower_as_selection(const Sort& form, int64_t count);
  /// The number kept goes to a further global buffer, `count`, after the region's outputs.
  void lower(const Compact& form);
  struct LocalDimension {
    int tensor = -1;
    size_t dimension = 0;
    Expr variable;  ///< the local variable that indexes it
  };
  const Region& region_;
  const Layouts layouts_;
  ProgramBuilder builder_;
  const int64_t lanes_;
  std::vector<graft::Axis> common_;               // the grid
  Replacements replacements_;                     // common variable -> grid expression
  std::vector<Tiled> tiled_;                      // split common axes, in order
  bool in_order_ = false;                         // as tiles of a block have it: a GPU's statements and rules
  bool lanes_last_ = true;                        // an axis that is split comes last; else where the form has it
  std::vector<LocalDimension> local_dimensions_;  // of scratch tensors
  std::vector<Folded> folded_;                    // tensors that are never stored themselves
};

}  // namespace graft::tile
