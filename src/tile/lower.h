// SPDX-License-Identifier: Apache-2.0
// Lowering: region + schedule + target -> tile program.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "expr/region.h"
#include "target/target.h"
#include "tile/panel_layout.h"
#include "tile/program.h"
#include "tile/schedule.h"

namespace graft::tile {

/// By region tensor; empty means row-major.
using Layouts = std::vector<std::optional<PanelLayout>>;

/// A kernel, or the reason why the schedule does not fit the region.
using Lowered = std::variant<Program, std::string>;

/// Lowers a normalised region. The program's global buffers are the region's inputs, then its outputs.
Lowered lower(const Region& region, const Layouts& layouts, const Schedule& schedule, const Target& target);

/// The strategies behind lower(), one file each.
Lowered lower_nest(const Region& region, const Layouts& layouts, const NestSchedule& schedule, const Target& target);
Lowered lower_block(const Region& region, const Layouts& layouts, const BlockSchedule& schedule, const Target& target);
Lowered lower_contract(const Region& region, const Layouts& layouts, const ContractSchedule& schedule,
                       const Target& target);
Lowered lower_product(const Region& region, const Layouts& layouts, const ProductSchedule& schedule,
                      const Target& target);
Lowered lower_attention(const Region& region, const AttentionSchedule& schedule, const Target& target);

}  // namespace graft::tile
