// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most: the yardstick of `graft inspect`.
#pragma once

namespace graft {

class Device;

struct MachinePeak {
  double gflops = 0;           ///< fp32 multiply-adds (two operations each), all threads; 0 when it cannot be measured
  double half_gflops = 0;      ///< the same of products in fp16 or bf16; 0: as fp32
  double gigabytes_per_s = 0;  ///< read and written, between memory and processor
};

/// The larger of each: other work can only lower what is measured.
MachinePeak better_of(const MachinePeak& a, const MachinePeak& b);

/// The peaks of this machine's processor: the best of all that was measured on it so far, which the kernel cache keeps.
class PeakMeter {
 public:
  /// Measures once. `threads` as the engine runs.
  explicit PeakMeter(int threads);
  /// Measures again, and keeps the best. Takes about half a second.
  const MachinePeak& measure();
  const MachinePeak& best() const { return best_; }
  /// Whether one of this process's measurements is far below the best: other work is running.
  bool varies() const;

 private:
  int threads_;
  MachinePeak best_, lowest_;
};

/// Of a GPU: copies measured, arithmetic as its units and clock give it. Takes about a tenth of a second.
MachinePeak measure_peak(Device& device);

}  // namespace graft
