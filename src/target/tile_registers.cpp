// SPDX-License-Identifier: Apache-2.0
#include "target/tile_registers.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace graft {

bool may_use_tile_registers() {
#if defined(__x86_64__) && defined(__linux__)
  static const bool may = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kTile = 1U << 24, kInt8 = 1U << 25, kBFloat16 = 1U << 22, kSavesState = 1U << 27;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & kSavesState)) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & kTile) || !(d & kInt8) || !(d & kBFloat16)) return false;
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return may;
#else
  return false;
#endif
}

}  // namespace graft
