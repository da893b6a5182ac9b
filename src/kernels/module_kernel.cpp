// SPDX-License-Identifier: Apache-2.0
#include "kernels/module_kernel.h"

#include <fmt/format.h>

namespace graft {

bool make_module_kernel(std::span<const HostKernelInfo> table, const Node& node, ModuleKernel& kernel,
                        ModuleResult& error) {
  guard_module(error, [&] {
    for (const HostKernelInfo& row : table) {
      if (row.domain != node.domain || row.op != node.op) continue;
      kernel = [run = row.make(node)](std::span<const DynamicValue> inputs, const RunLimits& limits) {
        const LimitScope scope(limits.budget, limits.stop);  // the core's are not those of this library
        ModuleResult result;
        guard_module(result, [&] { result.values = run(inputs); });
        return result;
      };
      return;
    }
    throw Error(ErrorKind::kDevice, fmt::format("the module has no kernel of {}", node.op), "");
  });
  return !error.failed;
}

}  // namespace graft
