// SPDX-License-Identifier: Apache-2.0
// What LLVM knows of a target: the machine that turns a module into an object.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "codegen/progress.h"
#include "target/target.h"

namespace graft::codegen {

/// The LLVM machine of a CPU target; throws unsupported when LLVM lacks the architecture.
std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& target);

/// Marks a function with the features it is compiled for.
void set_attributes(llvm::Function& function, const Target& target);

/// Cheap scalar optimisations; emission has already vectorised. Throws cancelled when `progress` wants to stop.
void optimize(llvm::Module& module, llvm::TargetMachine& machine, Progress& progress);

/// The ELF object of an optimised module. Tells `progress` each function; throws cancelled when it wants to stop.
std::string emit_elf(llvm::Module& module, llvm::TargetMachine& machine, Progress& progress);

}  // namespace graft::codegen
