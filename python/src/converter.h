// SPDX-License-Identifier: Apache-2.0
// Converters that are Python functions (graft_converter.h).
#pragma once

#include <nanobind/nanobind.h>

namespace graft_python {

/// `_graft.Conversion`, `_graft.add_converter`, `_graft.load_converters`, `_graft.remove_converters`.
void bind_converters(nanobind::module_& module);

}  // namespace graft_python
