// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/conversion.h"

namespace graft::aten {

/// x weight^T + bias, where there is a bias. The weight has two axes, or one, by which the last axis of x goes.
ValueId linear(frontend::Conversion& c, ValueId x, ValueId weight, ValueId bias);

}  // namespace graft::aten
