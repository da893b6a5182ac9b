// SPDX-License-Identifier: Apache-2.0
// Where library calls come from: the module of the library, opened when the first call is made ready and not before.
#pragma once

#include <string>

#include "runtime/library_call.h"

namespace graft {

/// Makes calls ready for the sessions of one loaded engine: what follows from a step's region is worked out once.
LibrarySource library_source();

/// Empty when the library's module is there and opens, else what is missing.
std::string why_no_library(const std::string& library);

/// Name and version of the library; opens it. Empty when there is none.
std::string library_version(const std::string& library);

}  // namespace graft
