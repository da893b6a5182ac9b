// SPDX-License-Identifier: Apache-2.0
#include "modules/host_source.h"

#include <map>
#include <mutex>

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/module_kernel.h"
#include "modules/open_module.h"

namespace graft {
namespace {

/// The module's function; the module stays open for the life of the process.
MakeModuleKernel open_kernels(const std::string& name) {
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::map<std::string, MakeModuleKernel, std::less<>>;
  const std::lock_guard lock(mutex);
  MakeModuleKernel& make = known[name];
  if (make) return make;
  const std::string path = find_module(name);
  void* module = open_module(name, path);
  make = reinterpret_cast<MakeModuleKernel>(module_function(module, "graft_make_host_kernel"));
  GRAFT_USER_CHECK(make, kDevice, "is not a module of kernels of this version of Graft", path);
  return make;
}

/// Makes the kernel of a node in its module.
HostKernel make_in_module(const Node& node) {
  const HostKernelInfo* info = find_host_kernel(node.domain, node.op);
  ModuleKernel kernel;
  ModuleResult error;
  if (!open_kernels(std::string(info->module))(node, kernel, error)) throw Error(error.kind, error.message, "");
  return [kernel](std::span<const DynamicValue> inputs) {
    ModuleResult result = kernel(inputs, current_limits());
    if (result.failed) throw Error(result.kind, result.message, "");
    return std::move(result.values);
  };
}

}  // namespace

HostKernelSource host_kernel_source() {
  return [](const HostKernelInfo& kernel) -> MakeHostKernel {
    open_kernels(std::string(kernel.module));
    return make_in_module;
  };
}

std::string why_no_host_kernel(const HostKernelInfo& kernel) {
  try {
    open_kernels(std::string(kernel.module));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace graft
