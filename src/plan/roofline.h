// SPDX-License-Identifier: Apache-2.0
// What a region costs at least: arithmetic operations and bytes moved, as sizes.
#pragma once

#include "expr/region.h"

namespace graft {

/// Arithmetic operations of one run of the region.
Size operations_of(const Region& region);
/// Bytes of inputs read once and outputs written once.
Size bytes_of(const Region& region);

}  // namespace graft
