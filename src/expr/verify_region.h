// SPDX-License-Identifier: Apache-2.0
// The rules of regions, as a question.
#pragma once

#include <optional>
#include <string>

#include "expr/region.h"

namespace graft {

/// The first rule that the region breaks, with its form; nothing when it keeps all.
std::optional<std::string> region_fault(const Region& region);

}  // namespace graft
