// SPDX-License-Identifier: Apache-2.0
// Tile programs to one ELF object for a CPU.
#pragma once

#include <span>
#include <string>

#include "codegen/progress.h"
#include "target/target.h"
#include "tile/program.h"

namespace graft::codegen {

/// What a compilation gives.
struct ObjectCode {
  std::string elf;     ///< an ELF relocatable with one function per program, named as the program
  std::string source;  ///< LLVM IR, when it was asked for
};

/// What of a compilation is wanted.
struct ObjectParts {
  bool elf = true;
  bool source = false;   ///< after optimisation
  bool emitted = false;  ///< the source before optimisation instead, and nothing else
};

/// Compiles verified programs into one object; equal inputs give equal bytes. Throws graft::Error: unsupported when a
/// program uses an element type that generated CPU kernels lack, cancelled when `progress` wants to stop. Thread-safe.
ObjectCode emit_object(std::span<const tile::Program> programs, const Target& target, Progress& progress,
                       const ObjectParts& parts = {});

/// The same for a caller who never stops it.
inline ObjectCode emit_object(std::span<const tile::Program> programs, const Target& target,
                              const ObjectParts& parts = {}) {
  Progress progress;
  return emit_object(programs, target, progress, parts);
}

}  // namespace graft::codegen
