// SPDX-License-Identifier: Apache-2.0
// What a target can do at most, as far as its description tells: the yardstick of the cost model.
#pragma once

#include <string_view>

#include "target/target.h"

namespace graft {

/// Of the whole machine, in a second.
struct Peak {
  double operations = 0;    ///< fp32 multiplications and additions of products
  double half = 0;          ///< the same of fp16 and bf16 operands
  double instructions = 0;  ///< elements that vector units take an instruction further, a multiply-add being one
  double bytes = 0;         ///< between memory and processor, read and written
  double start = 0;         ///< seconds until a kernel that was called begins
};

Peak peak_of(const Target& target);

/// Operations of a multiprocessor of an architecture (sm_90a) in a clock, from NVIDIA's tables of arithmetic
/// throughput; 0 for one that is not known.
int operations_per_clock(std::string_view architecture, bool half);

}  // namespace graft
