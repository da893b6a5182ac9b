// SPDX-License-Identifier: Apache-2.0
#if defined(__aarch64__)
#include <algorithm>
#include <bit>

#include <sys/auxv.h>
#include <sys/prctl.h>

#include "target/cpus.h"

namespace graft {
namespace {

/// Bits of Linux's AT_HWCAP and AT_HWCAP2 (Documentation/arch/arm64/elf_hwcaps.rst); older headers lack some.
constexpr unsigned long kFpHalf = 1UL << 9, kVectorHalf = 1UL << 10, kDotProducts = 1UL << 20, kSve = 1UL << 22;
constexpr unsigned long kSve2 = 1UL << 1, kSveInt8 = 1UL << 9, kSveBFloat16 = 1UL << 12, kInt8 = 1UL << 13,
                        kBFloat16 = 1UL << 14;

/// A feature, and the bits that stand for it; where the machine has SVE, those of its vectors too.
struct Detected {
  std::string_view feature;
  unsigned long first, second, second_of_sve;
};

constexpr Detected kDetected[] = {
    {"+fullfp16", kFpHalf | kVectorHalf, 0, 0}, {"+dotprod", kDotProducts, 0, 0}, {"+i8mm", 0, kInt8, kSveInt8},
    {"+bf16", 0, kBFloat16, kSveBFloat16},      {"+sve", kSve, 0, 0},             {"+sve2", kSve, kSve2, 0},
};

/// Bits of an SVE vector in this thread; 0 where Linux does not say.
int sve_bits() {
#ifndef PR_SVE_GET_VL
  constexpr int PR_SVE_GET_VL = 51;
#endif
  constexpr int kLengthMask = 0xffff;
  const int value = prctl(PR_SVE_GET_VL);
  return value < 0 ? 0 : (value & kLengthMask) * 8;
}

}  // namespace

/// Vectors of SVE are used from 256 bits on: shorter ones are those of NEON.
void detect_host(Target& target) {
  const Cpu& least = *find_cpu("portable");
  target.features = least.features;
  target.vector_bits = least.vector_bits;
  target.vector_registers = least.vector_registers;
  target.masked_memory = least.masked_memory;
  const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  const int bits = (first & kSve) != 0 ? sve_bits() : 0;
  for (const Detected& row : kDetected) {
    const unsigned long needed = row.second | (bits > 0 ? row.second_of_sve : 0);
    const bool needs_sve = (row.first & kSve) != 0;
    if ((first & row.first) != row.first || (second & needed) != needed || (needs_sve && bits == 0)) continue;
    target.features += "," + std::string(row.feature);
  }
  if (bits < 256) return;
  target.vector_bits = std::min(512, static_cast<int>(std::bit_floor(static_cast<unsigned>(bits))));
  target.masked_memory = true;
}

}  // namespace graft
#endif
