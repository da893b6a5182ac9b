// SPDX-License-Identifier: Apache-2.0
// What LLVM knows of a target: the machine that turns a module into an object, and the facts that emission asks for.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "codegen/progress.h"
#include "target/target.h"

namespace graft::codegen {

/// Facts of a target that decide how code is emitted.
struct Traits {
  int vector_bits = 128;
  int registers = 16;
  int register_bits = 128;  ///< of the widest register that its instructions have
  bool masked = false;  ///< masked loads and stores are cheap
  bool permutes = false;        ///< an instruction takes 32-bit lanes of a vector in any order
  bool permutes_words = false;  ///< and 16-bit lanes, of vectors of any length
  bool fma = false;
  bool half = false;      ///< instructions convert f16 to f32 and back
  bool bfloat = false;    ///< an instruction rounds f32 to bf16; it takes denormals as zeros
  bool rounding = false;  ///< floor, ceil, trunc, roundeven are instructions
};

Traits traits_of(const Target& target);

/// The LLVM machine of a CPU target; throws unsupported when LLVM lacks the architecture.
std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& target);

/// Marks a function with the features it is compiled for.
void set_attributes(llvm::Function& function, const Target& target);

/// Cheap scalar optimisations; emission has already vectorised. Throws cancelled when `progress` wants to stop.
void optimize(llvm::Module& module, llvm::TargetMachine& machine, Progress& progress);

/// The ELF object of an optimised module. Tells `progress` each function; throws cancelled when it wants to stop.
std::string emit_elf(llvm::Module& module, llvm::TargetMachine& machine, Progress& progress);

}  // namespace graft::codegen
