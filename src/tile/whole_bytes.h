// SPDX-License-Identifier: Apache-2.0
// Elements that no machine computes with: floats of at most 8 bits, and what shares a byte with its neighbours.
#pragma once

#include <string>
#include <variant>

#include "expr/region.h"

namespace graft::tile {

/// The region over bytes. In expressions, a float of at most 8 bits is its code and an integer narrower than a byte is
/// itself, both as i32; conversions become integer arithmetic by the format's table, so that every code generator has
/// them. Inputs and outputs of elements narrower than a byte are u8 tensors of the packed bytes: each point of a
/// result makes a whole byte. Gives the reason where a form combines or orders such elements.
/// Floats of 8 bits that the target `converts_float8` stay as they are.
std::variant<Region, std::string> in_whole_bytes(const Region& region, bool converts_float8 = false);

/// Whether some tensor or expression of the region is of a type that in_whole_bytes spells.
bool has_narrow_elements(const Region& region, bool converts_float8 = false);

}  // namespace graft::tile
