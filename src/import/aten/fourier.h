// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "import/aten/complex.h"

namespace graft::aten {

/// The discrete Fourier transform along one axis, without a scale, of complex numbers or of real ones, whose imaginary
/// part is kNoValue. `sign` is that of the exponent: -1 forward, 1 inverse. `half`: the first frequencies alone, which
/// tell the others where numbers are real. Refuses what neither products nor the operator DFT can do.
Complex transformed(frontend::Conversion& c, const Complex& x, int64_t axis, int sign, bool half = false);

}  // namespace graft::aten
