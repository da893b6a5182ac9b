// SPDX-License-Identifier: Apache-2.0
// The CUDA code generator as the test uses it: many kernels per unit, several units at a time, with what the assembler
// says of registers and spills.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "kernels/collect.h"

namespace graft::kernels {

/// What the generator sends, by kind.
using Sent = std::map<std::string, std::string>;

/// What the assembler says of a kernel that keeps values in memory for want of registers.
struct Spill {
  std::string kernel;
  int stored_bytes = 0, loaded_bytes = 0;  ///< per thread
};

/// A kernel that has no code, and why.
struct Rejected {
  std::string kernel, reason;
  bool by_generator = false;  ///< no CUDA C++ is written for it, so that a step says why it has no kernel
};

/// A kernel whose warps ask for more registers than their block starts with, and would wait for them for ever.
struct Starved {
  std::string kernel;
  int has = 0, wants = 0;  ///< of a block
};

/// What compiling gave.
struct Outcome {
  int kernels = 0, units = 0;
  double seconds = 0;
  std::vector<Spill> spills;
  std::vector<Starved> starved;
  std::vector<Rejected> rejected;
};

/// libgraft_cuda.so, opened for good. Throws std::runtime_error.
class Compiler {
 public:
  /// The module of this build with the compiler that it finds, or, where a folder with libnvrtc is named, with that
  /// one: a copy of the module is then opened beside it, as pip's packages lie beside each other.
  explicit Compiler(const std::string& nvrtc_folder = "");
  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  /// "graft-cuda 1, NVRTC 13.0"
  std::string version() const { return version_(); }
  /// Compiles all programs for a target, on all processors. A unit that fails is compiled again kernel by kernel.
  /// `quick`: with less optimisation, where the compiler can; spills then mean nothing and are not given.
  Outcome compile(const Programs& programs, const std::string& target, bool quick) const;

 private:
  struct Unit;
  void compile_unit(const Unit& unit, const std::string& target, bool quick, Outcome& outcome) const;
  bool run(const std::string& text, const std::string& target, const char* options, Sent& sent) const;

  std::string copy_;  ///< a folder to remove
  graft_codegen_compile_fn compile_ = nullptr;
  graft_codegen_version_fn version_ = nullptr;
};

}  // namespace graft::kernels
