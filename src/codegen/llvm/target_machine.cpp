// SPDX-License-Identifier: Apache-2.0
#include "codegen/llvm/target_machine.h"

#include <llvm/ADT/SmallString.h>
#include <llvm/IR/DiagnosticHandler.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Pass.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <mutex>

#include "base/error.h"
#include "target/cpus.h"

namespace graft::codegen {
namespace {

/// The processors that src/target knows: what else LLVM was built for need not be linked.
void initialize_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
}

/// Runs after the passes that made a function's machine code: tells the name of a kernel (the functions inside kernels
/// are local), and when the work is to stop takes the bodies of all functions, since a pass manager goes through to the
/// end but skips declarations.
class ProgressPass : public llvm::FunctionPass {
 public:
  explicit ProgressPass(Progress& progress) : llvm::FunctionPass(id_), progress_(progress) {}

  llvm::StringRef getPassName() const override { return "graft progress"; }
  void getAnalysisUsage(llvm::AnalysisUsage& usage) const override { usage.setPreservesAll(); }
  bool runOnFunction(llvm::Function& function) override {
    const llvm::StringRef name = function.hasLocalLinkage() ? llvm::StringRef() : function.getName();
    if (!progress_.stop(std::string_view(name))) return false;
    for (llvm::Function& other : *function.getParent()) {
      if (&other != &function) other.deleteBody();
    }
    return true;
  }

 private:
  static inline char id_ = 0;
  Progress& progress_;
};

/// Keeps LLVM's first error, at which it would end the process.
class FirstError : public llvm::DiagnosticHandler {
 public:
  explicit FirstError(std::string& error) : error_(error) {}

  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() != llvm::DS_Error || !error_.empty()) return true;
    llvm::raw_string_ostream stream(error_);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info.print(printer);
    return true;
  }

 private:
  std::string& error_;
};

}  // namespace

std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& target) {
  initialize_once();
  const Architecture* architecture = find_architecture(target);
  GRAFT_USER_CHECK(architecture, kUnsupported, "kernels are not generated for " + target.architecture, target.name);
  std::string reason;
  const std::string triple = std::string(architecture->name) + "-unknown-linux-gnu";
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, reason);
  GRAFT_USER_CHECK(found, kUnsupported, "LLVM has no target " + triple + ": " + reason, target.name);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return std::unique_ptr<llvm::TargetMachine>(
      found->createTargetMachine(triple, architecture->processor, target.features, options, llvm::Reloc::PIC_,
                                 llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

void set_attributes(llvm::Function& function, const Target& target) {
  function.addFnAttr("target-features", target.features);
  function.addFnAttr("prefer-vector-width", std::to_string(target.vector_bits));
  function.addFnAttr("min-legal-vector-width", std::to_string(target.vector_bits));
  function.addFnAttr("denormal-fp-math", "ieee,ieee");
  function.addFnAttr("no-jump-tables", "true");
  function.addFnAttr(llvm::Attribute::NoUnwind);
  if (!has_scalable_vectors(target)) return;
  constexpr unsigned kMostUnits = 16;  // 2048 bits, the longest vector of SVE
  const int unit = find_architecture(target)->scalable_unit_bits;
  function.addFnAttr(llvm::Attribute::getWithVScaleRangeArgs(
      function.getContext(), static_cast<unsigned>(target.vector_bits / unit), kMostUnits));
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine, Progress& progress) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager groups;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(groups);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, groups, modules);

  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(true));
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::InstCombinePass());
  llvm::LoopPassManager loop_passes;
  loop_passes.addPass(llvm::LICMPass(llvm::LICMOptions()));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loop_passes), /*UseMemorySSA=*/true));
  passes.addPass(llvm::EarlyCSEPass(true));
  passes.addPass(llvm::ADCEPass());
  passes.addPass(llvm::SimplifyCFGPass());
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    functions.invalidate(function, passes.run(function, functions));
    progress.check();
  }
}

std::string emit_elf(llvm::Module& module, llvm::TargetMachine& machine, Progress& progress) {
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  const bool refused = machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile);
  GRAFT_CHECK(!refused, "LLVM cannot write object files for this target");
  passes.add(new ProgressPass(progress));
  std::string error;
  module.getContext().setDiagnosticHandler(std::make_unique<FirstError>(error));
  passes.run(module);
  module.getContext().setDiagnosticHandler(nullptr);
  progress.check();
  GRAFT_USER_CHECK(error.empty(), kUnsupported, "LLVM makes no code of a kernel for this machine: " + error,
                   "code generator");
  return std::string(bytes.data(), bytes.size());
}

}  // namespace graft::codegen
