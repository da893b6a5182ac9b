// SPDX-License-Identifier: Apache-2.0
// `_graft.quantize` and `_graft.Quantized`: models of 8 bits, from samples and a metric in Python.
#pragma once

#include <nanobind/nanobind.h>

namespace graft_python {

void bind_quantizing(nanobind::module_& module);

}  // namespace graft_python
