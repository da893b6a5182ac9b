// SPDX-License-Identifier: Apache-2.0
// Arithmetic of complex numbers that are pairs of reals.
#pragma once

#include "frontend/conversion.h"

namespace graft::aten {

using frontend::Complex;

/// The type of the parts of c64 and c128; refuses others.
DType part_type(frontend::Conversion& c, DType complex);
Complex scaled(frontend::Conversion& c, const Complex& z, ValueId by);
/// Both parts of x, which is complex or real: then the imaginary one is kNoValue.
Complex numbers(frontend::Conversion& c, std::string_view name);
/// Both parts of z through a function of one value.
template <class Function>
Complex each_part(const Complex& z, const Function& function) {
  return {.real = function(z.real), .imaginary = function(z.imaginary)};
}

/// Gives the rows of `converters` what they do with complex numbers.
void extend_to_complex(frontend::Converters& converters);

}  // namespace graft::aten
