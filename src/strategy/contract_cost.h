// SPDX-License-Identifier: Apache-2.0
// What products of the micro-kernels of a CPU take.
#pragma once

#include "strategy/cost.h"

namespace graft {

/// A micro-kernel keeps its sums in registers, as many rows of them as fit. `unit` null: multiply-adds.
Use use_of_contract(const Region& region, const ContractUnit* unit, const Bindings& typical, const Target& target);

/// Seconds in which all threads split the left operand into parts for each `columns` of the result, and look at the
/// sums; of a window, an element once for all taps.
double seconds_of_splitting(const Region& region, int64_t columns, bool window, const Bindings& typical,
                            const Target& target);

}  // namespace graft
