// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most, measured now: the yardstick of `graft inspect`.
#pragma once

namespace graft {

class Device;

struct MachinePeak {
  double gflops = 0;           ///< fp32 multiply-adds (two operations each), all threads; 0 when it cannot be measured
  double half_gflops = 0;      ///< the same of products in fp16 or bf16; 0: as fp32
  double gigabytes_per_s = 0;  ///< read and written, between memory and processor
};

/// Takes about half a second. `threads` as the engine runs.
MachinePeak measure_peak(int threads);
/// Of a GPU: copies measured, arithmetic as its units and clock give it. Takes about a tenth of a second.
MachinePeak measure_peak(Device& device);

}  // namespace graft
