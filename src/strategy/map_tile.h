// SPDX-License-Identifier: Apache-2.0
// Which axis of a map a grid point of a CPU should hold a part of, beside the last one.
#pragma once

#include <optional>

#include "expr/region.h"

namespace graft::tile {

/// So many points of an axis go with a row of the last axis.
struct MapTile {
  int variable = -1;
  int64_t points = 0;
};

/// Of a region of maps over `common` axes, and a last axis that may be the last of these: the axis along which a tensor
/// that is read lies side by side, so that blocks can be turned around in registers; or one that the places of what is
/// read along the last axis do not depend on, so that they are computed once for several points. Nothing where lanes
/// along the last axis are enough.
std::optional<MapTile> map_tile(const Region& region, const std::vector<graft::Axis>& common,
                                const graft::Axis& last);

}  // namespace graft::tile
