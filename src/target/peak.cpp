// SPDX-License-Identifier: Apache-2.0
#include "target/peak.h"

#include <algorithm>

namespace graft {
namespace {

/// A kind of GPU, as its largest runs.
struct GpuRate {
  std::string_view architecture;
  int single, half;  ///< operations of a multiprocessor in a clock
  double gigahertz, gigabytes;
};

constexpr GpuRate kGpuRates[] = {
    {"sm_80", 128, 2048, 1.41, 2039},  {"sm_86", 256, 1024, 1.70, 936},   {"sm_89", 256, 1024, 2.52, 864},
    {"sm_90a", 256, 4096, 1.83, 4800}, {"sm_100", 256, 8192, 1.85, 8000}, {"sm_120", 256, 1024, 2.41, 1792},
};

const GpuRate* find_rate(std::string_view architecture) {
  for (const GpuRate& rate : kGpuRates) {
    if (rate.architecture == architecture) return &rate;
  }
  return nullptr;
}

Peak peak_of_cpu(const Target& target) {
  constexpr double kClock = 2.5e9, kBandwidth = 10e9;  // of a thread
  constexpr double kUnits = 2;                         // that take a vector an instruction further in a clock
  const double threads = std::max(1, target.threads);
  Peak peak{.bytes = kBandwidth * threads, .start = 1e-6};
  peak.instructions = kUnits * target.vector_bits / 32 * kClock * threads;
  peak.operations = peak.half = 2 * peak.instructions;
  return peak;
}

}  // namespace

Peak peak_of(const Target& target) {
  if (target.kind == TargetKind::kCpu) return peak_of_cpu(target);
  const GpuRate* known = find_rate(target.architecture);
  const GpuRate& rate = known ? *known : kGpuRates[0];
  const double clocks = rate.gigahertz * 1e9 * std::max(1, target.multiprocessors);
  return {.operations = rate.single * clocks,
          .half = rate.half * clocks,
          .instructions = rate.single / 2.0 * clocks,
          .bytes = rate.gigabytes * 1e9,
          .start = 2e-6};
}

int operations_per_clock(std::string_view architecture, bool half) {
  const GpuRate* rate = find_rate(architecture);
  return !rate ? 0 : half ? rate->half : rate->single;
}

}  // namespace graft
