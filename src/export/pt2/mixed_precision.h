// SPDX-License-Identifier: Apache-2.0
// A program of torch.export as one of mixed precision: aten::to where amp/mixed_precision.h decides.
#pragma once

#include <map>
#include <string>

#include "amp/request.h"
#include "amp/rules.h"
#include "export/pt2/write_archive.h"

namespace graft::pt2 {

struct MixedProgram {
  ChangedEntries entries;                   ///< of the archive
  int casts = 0;                            ///< that were inserted
  std::map<std::string, DType> parameters;  ///< weights and constants of f32 before, by the model's names
};

/// Converts a program. Arguments and results keep their types. An operator that writes into its operand becomes the one
/// that does not. Throws as read_program does, and invalid_argument for a request that does not fit it.
MixedProgram convert_program(const Archive& archive, const amp::Request& request, const amp::DefaultLists& lists);

}  // namespace graft::pt2
