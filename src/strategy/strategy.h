// SPDX-License-Identifier: Apache-2.0
// Strategies: how regions of a kind become kernels. A strategy is a file, or a few, and a row of strategies.inc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "expr/region.h"
#include "strategy/schedule.h"
#include "target/target.h"
#include "tile/panel_layout.h"
#include "tile/program.h"

namespace graft::tile {

/// What a strategy sees of a normalised region that it may have candidates for.
struct RegionView {
  const Region& region;
  const std::vector<bool>& constant;  ///< by region tensor: known when compiling, so that it may be packed
  const Bindings& typical;            ///< of the symbols: sizes are judged at them
};

/// A kernel, or the reason why the schedule does not fit the region.
using Lowered = std::variant<Program, std::string>;

struct Strategy {
  std::string_view name;
  std::span<const Field> fields;
  std::optional<TargetKind> kind;  ///< of targets; nothing: any
  bool names_unit = false;         ///< its schedules may name what multiplies
  bool is_fallback = false;        ///< it is asked only where no special strategy has candidates
  bool is_general = false;         ///< it takes every region; what does not fit a block lies in a GPU's memory
  /// Why no schedule of the strategy fits the region on a target of its kind, or an empty text.
  std::string (*why_not)(const RegionView& view, const Target& target);
  /// Adds schedules that may suit, the cost model's favourite first. `is_first`: no candidate of a strategy that is not
  /// general stands before.
  void (*candidates)(const RegionView& view, const Target& target, bool is_first, std::vector<Schedule>& schedules);
  /// Seconds that a kernel of the schedule takes, roughly: the region's forms as they are spelled, at the rates that
  /// kernels of the strategy reach.
  double (*seconds)(const Region& region, const Schedule& schedule, const Bindings& typical, const Target& target);
  /// The layouts that a schedule asks of constant operands, by region tensor.
  Layouts (*layouts)(const Region& region, const std::vector<bool>& constant, const Schedule& schedule);
  Lowered (*lower)(const Region& region, const Layouts& layouts, const Schedule& schedule, const Target& target);
};

// Each row is defined in the strategy's own file.
#define GRAFT_STRATEGY(name) extern const Strategy name##_strategy;
#include "strategy/strategies.inc"
#undef GRAFT_STRATEGY

/// `lower` of a row whose lowering takes the strategy's own record.
template <class Record, Lowered (*lower)(const Region&, const Layouts&, const Record&, const Target&)>
Lowered lower_as(const Region& region, const Layouts& layouts, const Schedule& schedule, const Target& target) {
  return lower(region, layouts, *schedule.as<Record>(), target);
}

/// The rows of strategies.inc, in order.
std::span<const Strategy* const> strategies();
/// Null where no row has the name.
const Strategy* find_strategy(std::string_view name);

/// Adds a strategy behind those of strategies.inc for as long as it lives: what a test, or an experiment, tries without
/// a row. Not while another thread compiles.
class AddedStrategy {
 public:
  explicit AddedStrategy(const Strategy& strategy);
  ~AddedStrategy();
  AddedStrategy(const AddedStrategy&) = delete;
  AddedStrategy& operator=(const AddedStrategy&) = delete;
};

/// Lowers a normalised region. The program's global buffers are the region's inputs, then its outputs.
Lowered lower(const Region& region, const Layouts& layouts, const Schedule& schedule, const Target& target);

}  // namespace graft::tile
