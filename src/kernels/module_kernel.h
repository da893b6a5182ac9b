// SPDX-License-Identifier: Apache-2.0
// The border between the core and the modules of host kernels, which are of the same build: values cross it as they
// are, errors as texts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/run_limits.h"
#include "kernels/host_kernel.h"

namespace graft {

/// What a module answers: values, or an error.
struct ModuleResult {
  std::vector<DynamicValue> values;
  bool failed = false;
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
};
using ModuleKernel = std::function<ModuleResult(std::span<const DynamicValue>, const RunLimits&)>;

/// `graft_make_host_kernel` of a module.
using MakeModuleKernel = bool (*)(const Node& node, ModuleKernel& kernel, ModuleResult& error);

/// Runs `body` and keeps what it throws.
template <class Body>
void guard_module(ModuleResult& result, const Body& body) {
  try {
    body();
    return;
  } catch (const Error& error) {
    result.kind = error.kind();
    result.message = error.message();
  } catch (const std::bad_alloc&) {
    result.kind = ErrorKind::kOutOfMemory;
    result.message = "the system gave no memory: free some, or use smaller inputs";
  } catch (const std::exception& error) {
    result.message = error.what();
  }
  result.failed = true;
}

/// What a module exports: its table of kernels behind the border.
bool make_module_kernel(std::span<const HostKernelInfo> table, const Node& node, ModuleKernel& kernel,
                        ModuleResult& error);

}  // namespace graft
