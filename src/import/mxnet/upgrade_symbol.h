// SPDX-License-Identifier: Apache-2.0
// Symbols of older MXNet as the newest would have written them, after the rules by which MXNet itself loads them.
#pragma once

#include "import/mxnet/symbol_file.h"

namespace graft::mxnet {

/// The version that wrote a symbol, 10901 for 1.9.1; 800 where it does not say.
int version_of(const Symbol& symbol);

/// Takes away what is no operator's attribute (`ctx_group`, `weight_lr_mult`), adds the auxiliary states that symbols
/// before 0.9 leave out (`bn_moving_mean`), and the axis -1 of argmax and argmin that before 0.9.5 meant none.
void upgrade(Symbol& symbol);

}  // namespace graft::mxnet
