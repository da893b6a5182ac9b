// SPDX-License-Identifier: Apache-2.0
// What a pass that takes recurrences apart must know of them beside their definitions.
#pragma once

#include <string>
#include <vector>

#include "base/size.h"

namespace graft {

/// Whether definitions write out one set of forms for each position of a recurrence of this length.
bool is_unrolled(const Size& length);
/// How many of a layer's alphas (or betas) these functions of its gates take.
size_t activation_parameters(const std::vector<std::string>& activations, bool beta);

}  // namespace graft
