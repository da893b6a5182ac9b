// SPDX-License-Identifier: Apache-2.0
#include "codegen/llvm/emit_object.h"

#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "base/error.h"
#include "codegen/llvm/emitter.h"

namespace graft::codegen {
namespace {

std::string print(const llvm::Module& module) {
  std::string source;
  llvm::raw_string_ostream(source) << module;
  return source;
}

}  // namespace

ObjectCode emit_object(std::span<const tile::Program> programs, const Target& target, Progress& progress,
                       const ObjectParts& parts) {
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
  ObjectCode code;
  if (parts.emitted) {
    code.source = print(module);
    return code;
  }
  optimize(module, *machine, progress);
  if (parts.source) code.source = print(module);
  if (parts.elf) code.elf = emit_elf(module, *machine, progress);
  return code;
}

}  // namespace graft::codegen
