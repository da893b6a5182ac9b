// SPDX-License-Identifier: Apache-2.0
// What points below one another have in common along the last axis.
#pragma once

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {

/// Before the loop over a thread's points, where all have the same neighbours along the last axis: arrays of what is
/// long to compute and changes along that axis alone, by which the values of the map name it from then on.
void hold_columns(const tile::Map& map, const PointDeal& dealt, KernelNames& names, CodeText& code,
                  ExpressionWriter& expressions);

}  // namespace graft::cuda
