// SPDX-License-Identifier: Apache-2.0
// Elements as matrix units read them.
#pragma once

#include "device/interface.h"

namespace graft::emulator {

/// Bits in which an element lies.
inline int element_bits(graft_element type) {
  return type == graft_tf32 ? 32 : type == graft_f16 || type == graft_bf16 ? 16 : 8;
}
/// Whether sums of products are i32.
inline bool is_integer(graft_element type) { return type == graft_s8 || type == graft_u8; }
/// Bits below the largest term of a sum that the unit of a type keeps, where it cuts sums off; 0 of others.
inline int kept_bits(graft_element type) {
  return type == graft_tf32 ? 24 : type == graft_e4m3 || type == graft_e5m2 ? 13 : 0;
}
/// Elements along k that one instruction multiplies.
inline int product_depth(graft_element type) { return 256 / element_bits(type); }

/// The value of the low bits, as many as the type has.
float element_value(graft_element type, unsigned bits);

/// sum + the `count` products a[i] * b[i * stride] as tensor cores add them up: exact terms, cut off so many bits below
/// the largest one, and a sum that is cut off to 24 bits.
float truncated_sum(int kept_bits, float sum, const float* a, const float* b, int stride, int count);

/// sum += more, or sum = more: of products of f32, or of integers, exact and wrapping.
void add_product(graft_element type, void* sum, float more, bool accumulates);

/// Where an address of shared memory leads in lines of 128, 64 or 32 bytes that are swizzled; 0: as it is. Pieces of 16
/// bytes change places within a line by the number of the line among 8.
inline unsigned swizzled(unsigned address, int line_bytes) {
  const unsigned pieces = line_bytes == 128 ? 7 : line_bytes == 64 ? 3 : line_bytes == 32 ? 1 : 0;
  return address ^ ((address >> 7 & pieces) << 4);
}

}  // namespace graft::emulator
