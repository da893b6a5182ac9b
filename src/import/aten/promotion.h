// SPDX-License-Identifier: Apache-2.0
// torch's rules for operands of different types.
#pragma once

#include <string_view>
#include <utility>

#include "frontend/conversion.h"

namespace graft::aten {

/// An operand as a tensor of a type: numbers of Python are rounded once.
ValueId as_type(frontend::Conversion& c, std::string_view name, DType type);

/// The type of an operation on both, as torch.result_type gives it. A number of Python takes part with its category
/// only; so does a tensor of rank 0 beside one with axes. Refuses what torch does not combine either.
DType result_type(frontend::Conversion& c, std::string_view first, std::string_view second);

/// Both operands in their common type.
std::pair<ValueId, ValueId> operands(frontend::Conversion& c, std::string_view first, std::string_view second);

/// The same, where integers become floats.
std::pair<ValueId, ValueId> float_operands(frontend::Conversion& c, std::string_view first, std::string_view second);

/// An operand, f32 where it is an integer.
ValueId as_float(frontend::Conversion& c, ValueId value);

/// The angle of (x, y) in [-pi, pi]; zeros keep their signs.
ValueId atan2(frontend::Conversion& c, ValueId y, ValueId x);

/// A number of the operand's type.
ValueId number(frontend::Conversion& c, double element, ValueId like);

}  // namespace graft::aten
