// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace graft_python {

int32_t tell_python(void* context, const char* stage, const char* step, int32_t done, int32_t total) {
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) return 1;
  const nb::handle progress(static_cast<PyObject*>(context));
  if (progress.is_none()) return 0;
  try {
    const nb::object answer = progress(stage, step, done, total);
    return answer.is(nb::bool_(false)) ? 1 : 0;
  } catch (nb::python_error& error) {
    error.restore();
    return 1;
  }
}

}  // namespace graft_python
