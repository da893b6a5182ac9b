// SPDX-License-Identifier: Apache-2.0
// The kernels of an engine under construction: equal programs are one kernel; units compile in parallel.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "plan/build_options.h"
#include "tile/program.h"

namespace graft {

class KernelTable {
 public:
  /// The kernel for a program; programs that differ only in name share one.
  int add(tile::Program program);
  /// All of them, without code.
  const std::vector<EngineKernel>& kernels() const { return kernels_; }
  /// Compiles the kernels of `engine`, which are these, but for those that were compiled or refused before. One that
  /// cannot be compiled gets a reason instead of an object.
  void compile(const BuildOptions& options, Engine& engine);
  /// Why the kernel has no code; empty when it has.
  const std::string& failure(int kernel) const { return failures_[kernel]; }

 private:
  struct Unit {
    std::vector<int> kernels;
    std::string text;
  };
  void compile_unit(const Unit& unit, const BuildOptions& options, Engine& engine);

  std::vector<EngineKernel> kernels_;
  std::vector<std::string> failures_;
  std::map<std::string, int> by_text_;
};

}  // namespace graft
