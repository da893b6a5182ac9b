// SPDX-License-Identifier: Apache-2.0
// Golden files of amp/: symbols of MXNet before and after the conversion to mixed precision.
#pragma once

#include <string>

#include "support/golden_file.h"

namespace graft {

/// The case's symbol converted as its first line asks (`// request: {...}`), with the type of each result, and the type
/// of each operand of an addition behind it.
std::string mixed_symbol(const golden::File& file, const golden::Case& c);

}  // namespace graft
