// SPDX-License-Identifier: Apache-2.0
// Steps that read one part of a tensor each, as those of a recurrence do, are one kernel: it is told where the part is.
#pragma once

#include <vector>

#include "expr/region.h"
#include "tile/panel_layout.h"

namespace graft {

/// A region whose inputs are the parts that it reads of them.
struct ReadParts {
  Region region;
  std::vector<int64_t> offsets;  ///< by input: bytes from the tensor's beginning to the part's
};

/// Where every load of an input has the same constant as its first index, the input is that part alone; so with the
/// index after it, and so on. Parts begin at whole cache lines. Inputs with a layout stay as they are.
ReadParts read_parts(const Region& region, const tile::Layouts& layouts);

}  // namespace graft
