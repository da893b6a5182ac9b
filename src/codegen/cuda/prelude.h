// SPDX-License-Identifier: Apache-2.0
// The device functions that generated kernels are written in: conversions, integer rules, warp and block reductions,
// staging of tiles and matrix instructions. CUDA C++ without any header, compiled with every unit.
#pragma once

#include <string>

namespace graft::cuda {

/// The text that stands in front of the kernels of a compilation unit.
std::string prelude();
/// Its part about the first ranks of rows.
std::string prelude_of_selections();
/// Its part about tiles: vector access, copies into shared memory, matrix fragments and products.
std::string prelude_of_tiles();
/// Its part about products of f32 tiles in tf32.
std::string prelude_of_tf32();
/// Its part about products of 16-bit tiles with codes that are decoded in registers.
std::string prelude_of_codes();
/// Its last part: mbarriers, TMA copies and cluster sums of warp-specialised blocks.
std::string prelude_of_warp_specialisation();

}  // namespace graft::cuda
