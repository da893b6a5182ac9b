// SPDX-License-Identifier: Apache-2.0
// A sample that something was changed in: refused with a reason, or a definition that stays inside its inputs.
#pragma once

#include <string>
#include <vector>

#include "support/sample_case.h"

namespace graft {

/// What became of a case.
struct Tried {
  std::string refusal;     ///< why, before anything is computed; empty when it is not refused
  std::string definition;  ///< the region as text, and the types and sizes that it is checked for; empty when refused
};

/// Defines and interprets the case. Adds a failure to the test for an error that is neither of a wrong model nor of an
/// unsupported one, and for a definition that reads outside of its inputs.
Tried try_definition(const SampleCase& c, Openness openness);

/// Operators that have samples, each once, in order of name.
std::vector<std::string> operators_with_samples();

}  // namespace graft
