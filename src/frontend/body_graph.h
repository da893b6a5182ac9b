// SPDX-License-Identifier: Apache-2.0
// Graphs that become bodies of If and Loop, as rows make them of a framework's functions.
#pragma once

#include <vector>

#include "frontend/conversion.h"

namespace graft::frontend {

/// Results of a body are values of their own: what it hands through, or has as a constant, becomes an Identity.
void name_results(Graph& body);
/// An input of a body that is like a value.
ValueId add_input(Graph& body, const Value& like);
/// Makes symbols of the axes of carried value `number` that a round changes from `taken` to `made`; whether more is a
/// symbol now. Refuses what changes its type or its number of axes.
bool widen_carried(const Conversion& c, size_t number, Given& known, const Value& taken, const Value& made);
/// What is known of values that a function is given.
std::vector<Given> given_of(const Conversion& c, const std::vector<ValueId>& values);

}  // namespace graft::frontend
