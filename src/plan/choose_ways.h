// SPDX-License-Identifier: Apache-2.0
// The choice of a way for each region of a program: as a record says, by measuring, or by the cost model.
#pragma once

#include "engine/record.h"
#include "fuse/fused_program.h"
#include "plan/build_options.h"
#include "plan/ways.h"

namespace graft {

/// Stands in a record for a step that is cut: its parts have records of their own.
inline constexpr std::string_view kInParts = "parts";

/// A normalised region of a step, with what is known about its inputs. Keeps a pointer to `region`.
RegionTask task_of(const Region& region, const FusedStep& step, const std::vector<FusedTensor>& tensors);

/// Fills the record with a choice for each different region of the program, judged at `typical` sizes. On a GPU, steps
/// of which a library does a part are cut behind it, unless the whole is as fast in one kernel.
void choose_ways(FusedProgram& program, const Bindings& typical, const BuildOptions& options, Record& record);

}  // namespace graft
