// SPDX-License-Identifier: Apache-2.0
// The table of libraries.
#pragma once

#include <span>
#include <string_view>

#include "target/target.h"

namespace graft {

struct LibraryInfo {
  std::string_view name;
  TargetKind target = TargetKind::kCpu;
  bool attention = false;
  int most_choices = 1;  ///< of the library's own ways of one call
  bool ready = false;    ///< its ways compile nothing
  std::string_view meaning;
};

/// In the order in which they are asked.
std::span<const LibraryInfo> all_libraries();
/// The row of that name, or null.
const LibraryInfo* find_library(std::string_view name);

}  // namespace graft
