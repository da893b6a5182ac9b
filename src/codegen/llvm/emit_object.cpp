// SPDX-License-Identifier: Apache-2.0
#include "codegen/llvm/emit_object.h"

#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "base/error.h"
#include "codegen/llvm/emitter.h"

namespace graft::codegen {

ObjectCode emit_object(std::span<const tile::Program> programs, const Target& target, Progress& progress,
                       bool with_source, bool with_elf) {
  const std::unique_ptr<llvm::TargetMachine> machine = make_target_machine(target);
  llvm::LLVMContext context;
  llvm::Module module("graft", context);
  module.setTargetTriple(machine->getTargetTriple().str());
  module.setDataLayout(machine->createDataLayout());
  module.setPICLevel(llvm::PICLevel::SmallPIC);
  Unit unit{module, target, traits_of(target), {}};
  for (const tile::Program& program : programs) {
    emit_program(unit, program);
    progress.check();
  }
  std::string reason;
  llvm::raw_string_ostream stream(reason);
  GRAFT_CHECK(!llvm::verifyModule(module, &stream), "malformed IR: " + reason);
  optimize(module, *machine, progress);
  ObjectCode code;
  if (with_source) {
    llvm::raw_string_ostream text(code.source);
    module.print(text, nullptr);
  }
  if (with_elf) code.elf = emit_elf(module, *machine, progress);
  return code;
}

}  // namespace graft::codegen
