// SPDX-License-Identifier: Apache-2.0
// graft_host.h for the package's Python code.
#pragma once

#include <nanobind/nanobind.h>

namespace graft_python {

/// `_graft.HostGraph`, `_graft.HostPartition` and the count of what runs in a framework instead.
void bind_host(nanobind::module_& module);

}  // namespace graft_python
