// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/engine.h"

namespace graft {

/// Says which steps the interpreter runs although kernels were to be generated: it is a thousand times slower.
void warn_of_interpreter(const Engine& engine);

}  // namespace graft
