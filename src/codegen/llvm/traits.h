// SPDX-License-Identifier: Apache-2.0
// The facts of a target that emission asks for, so that it names no architecture.
#pragma once

#include "target/target.h"

namespace graft::codegen {

/// Facts of a target that decide how code is emitted.
struct Traits {
  int vector_bits = 128;
  int registers = 16;
  int register_bits = 128;  ///< of the widest register that its instructions have
  bool masked = false;      ///< masked loads and stores are cheap
  bool fma = false;
  bool half = false;      ///< instructions convert f16 to f32 and back
  bool rounding = false;  ///< floor, ceil, trunc, roundeven are instructions

  bool permutes = false;        ///< an instruction takes 32-bit lanes of a vector in any order
  bool permutes_words = false;  ///< and 16-bit lanes, of vectors of any length
  bool permutes_bytes = false;  ///< and bytes, of two registers
  bool bfloat = false;          ///< an instruction rounds f32 to bf16; it takes denormals as zeros
  bool takes_elements = false;  ///< multiply-adds and dot products take one element of a register for all lanes
  /// LLVM loads whole vectors where it knows which of their lanes are masked.
  bool forgets_known_masks = false;
  /// The constraint of LLVM's inline assembly that stands for a vector register of at most `kept_bits`.
  const char* vector_constraint = "";
  int kept_bits = 0;
};

Traits traits_of(const Target& target);

}  // namespace graft::codegen
