// SPDX-License-Identifier: Apache-2.0
// What the C interface writes to memory, as Python's bytes.
#pragma once

#include <nanobind/nanobind.h>

#include "failure.h"
#include "without_gil.h"

namespace graft_python {

/// What `save(handle, allocate, context, error)` writes: the bytes object is made when its size is known, and filled
/// before anybody else sees it.
template <class Save, class Handle>
nanobind::bytes bytes_of(Save save, Handle* handle) {
  PyObject* made = nullptr;
  const auto allocate = [](void* to, size_t bytes) -> void* {
    const nanobind::gil_scoped_acquire gil;
    PyObject* const object = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes));
    if (!object) return nullptr;  // the exception stays pending
    *static_cast<PyObject**>(to) = object;
    return PyBytes_AsString(object);
  };
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const WithoutGil without_gil;
    status = save(handle, allocate, &made, &error);
  }
  const nanobind::object held = nanobind::steal(made);
  check(status, error);
  return nanobind::borrow<nanobind::bytes>(held);
}

}  // namespace graft_python
