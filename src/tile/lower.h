// SPDX-License-Identifier: Apache-2.0
// Lowering: region + schedule + target -> tile program.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "expr/region.h"
#include "target/target.h"
#include "tile/program.h"
#include "tile/schedule.h"

namespace graft::tile {

/// How a tensor lies in memory when not row-major: dimension `dim` is cut into panels of `lanes` consecutive elements
/// (the last padded with zeros); memory order is [other dimensions before `keep`...][panel][the rest][lane].
/// Used for constant right-hand operands of contractions: weights [k, n] become [n / lanes][k][lanes].
struct PanelLayout {
  int dim = 0;
  int64_t lanes = 32;
  int keep = 0;           ///< leading dimensions that stay outermost (batch)
  std::vector<int> rest;  ///< the other dimensions, in memory order
  bool operator==(const PanelLayout&) const = default;
};
/// The shape in memory of a tensor of `shape`.
Shape physical_shape(const PanelLayout& layout, const Shape& shape);
/// The region that computes the packed form: input 0 is the row-major tensor, output 0 the packed one.
Region packing_region(const PanelLayout& layout, DType type, const Shape& shape);

/// By region tensor; empty means row-major.
using Layouts = std::vector<std::optional<PanelLayout>>;

/// A kernel, or the reason why the schedule does not fit the region.
using Lowered = std::variant<Program, std::string>;

/// Lowers a normalised region. The program's global buffers are the region's inputs, then its outputs.
Lowered lower(const Region& region, const Layouts& layouts, const Schedule& schedule, const Target& target);

/// The strategies behind lower(), one file each.
Lowered lower_nest(const Region& region, const NestSchedule& schedule, const Target& target);
Lowered lower_contract(const Region& region, const Layouts& layouts, const ContractSchedule& schedule,
                       const Target& target);
Lowered lower_attention(const Region& region, const AttentionSchedule& schedule, const Target& target);

}  // namespace graft::tile
