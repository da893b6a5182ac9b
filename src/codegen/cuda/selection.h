// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tile/program.h"

namespace graft::cuda {

/// How many blocks of a program a multiprocessor should hold, of whose rows warps select the first ranks in registers.
int64_t blocks_of_selections(const tile::Program& program);

}  // namespace graft::cuda
