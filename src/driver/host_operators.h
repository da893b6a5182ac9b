// SPDX-License-Identifier: Apache-2.0
// Operators of users in the graphs of frameworks: a definition stands for the framework's operator of its name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frontend/conversion.h"

namespace graft {

/// The rows of a front end and, before these, one for each definition in `sources` (files or texts): of the operator
/// `domain::name` where the framework has namespaces, else of `name`; of MXNet's Custom by its op_type. Tensors are the
/// inputs, in the framework's order, and what else the operator is given the attributes. Throws as
/// read_operator_library does.
std::shared_ptr<const frontend::Converters> with_definitions(const frontend::Converters& rows,
                                                             const std::vector<std::string>& sources);

}  // namespace graft
