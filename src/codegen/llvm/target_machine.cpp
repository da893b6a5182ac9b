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

namespace graft::codegen {
namespace {

bool has_feature(const Target& target, std::string_view feature) {
  const std::string all = "," + target.features + ",";
  return all.find(",+" + std::string(feature) + ",") != std::string::npos;
}

/// The processors that src/target knows: what else LLVM was built for need not be linked.
void initialize_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
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

std::string triple_of(const Target& target) {
  return (target.architecture.empty() ? std::string("x86_64") : target.architecture) + "-unknown-linux-gnu";
}

}  // namespace

Traits traits_of(const Target& target) {
  Traits traits;
  traits.vector_bits = target.vector_bits;
  traits.registers = target.vector_registers;
  traits.masked = target.masked_memory;
  const bool x86 = target.architecture.empty() || target.architecture == "x86_64";
  traits.register_bits = has_feature(target, "avx512f") ? 512 : has_feature(target, "avx") ? 256 : 128;
  traits.permutes = x86 && has_feature(target, "avx2");
  traits.permutes_words = traits.permutes && has_feature(target, "avx512bw") && has_feature(target, "avx512vl");
  traits.fma = !x86 || has_feature(target, "fma") || has_feature(target, "avx512f");
  traits.bfloat = x86 && has_feature(target, "avx512bf16");
  traits.half = !x86 || has_feature(target, "f16c") || has_feature(target, "avx512f");
  traits.rounding = !x86 || has_feature(target, "sse4.1") || has_feature(target, "avx") ||
                    has_feature(target, "avx2") || has_feature(target, "avx512f");
  return traits;
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& target) {
  initialize_once();
  std::string reason;
  const std::string triple = triple_of(target);
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, reason);
  GRAFT_USER_CHECK(found, kUnsupported, "LLVM has no target " + triple + ": " + reason, target.name);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  const std::string cpu = target.architecture == "x86_64" || target.architecture.empty() ? "x86-64" : "generic";
  return std::unique_ptr<llvm::TargetMachine>(found->createTargetMachine(triple, cpu, target.features, options,
                                                                         llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                                         llvm::CodeGenOptLevel::Default));
}

void set_attributes(llvm::Function& function, const Target& target) {
  function.addFnAttr("target-features", target.features);
  function.addFnAttr("prefer-vector-width", std::to_string(target.vector_bits));
  function.addFnAttr("min-legal-vector-width", std::to_string(target.vector_bits));
  function.addFnAttr("denormal-fp-math", "ieee,ieee");
  function.addFnAttr("no-jump-tables", "true");
  function.addFnAttr(llvm::Attribute::NoUnwind);
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
