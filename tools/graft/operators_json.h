// SPDX-License-Identifier: Apache-2.0
// The table of operators with everything that the definitions know, for pages and tools.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace graft {

/// A JSON list with an object per operator, in the order of all_ops() and host_ops(): domain, name, since, inputs and
/// outputs (a trailing ? may be absent, * takes any number), attributes (name, and default or required), what it
/// computes, and what its samples show: the forms its definition is made of and the types of their inputs.
nlohmann::json operators_json();

}  // namespace graft
