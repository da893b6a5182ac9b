// SPDX-License-Identifier: Apache-2.0
// Elements as matrix units read them.
#pragma once

#include "device/interface.h"

namespace graft::emulator {

/// The value of the low bits, as many as the type has.
float element_value(graft_element type, unsigned bits);

/// Where an address of shared memory leads in lines of 128, 64 or 32 bytes that are swizzled; 0: as it is. Pieces of 16
/// bytes change places within a line by the number of the line among 8.
inline unsigned swizzled(unsigned address, int line_bytes) {
  const unsigned pieces = line_bytes == 128 ? 7 : line_bytes == 64 ? 3 : line_bytes == 32 ? 1 : 0;
  return address ^ ((address >> 7 & pieces) << 4);
}

}  // namespace graft::emulator
