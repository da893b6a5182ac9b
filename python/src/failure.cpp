// SPDX-License-Identifier: Apache-2.0
#include "failure.h"

namespace nb = nanobind;

namespace graft_python {
namespace {

/// Class of each graft_status, as graft/errors.py hands them in; lives as long as the module.
PyObject* classes[GRAFT_INTERNAL + 1] = {};

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Failure& failure) {
    const bool known = failure.status() > 0 && failure.status() <= GRAFT_INTERNAL && classes[failure.status()];
    PyErr_SetString(known ? classes[failure.status()] : PyExc_RuntimeError, failure.what());
  }
}

}  // namespace

void check(graft_status status, const graft_error& error) {
  if (status == GRAFT_OK) return;
  if (PyErr_Occurred()) throw nb::python_error();
  throw Failure(status, error.message);
}

void bind_failures(nb::module_& module) {
  module.def("set_error_classes", [](const nb::dict& by_status) {
    for (const auto& [status, error_class] : by_status) {
      const int index = nb::cast<int>(status);
      if (index <= 0 || index > GRAFT_INTERNAL) throw nb::value_error("no such status");
      Py_XDECREF(classes[index]);
      classes[index] = nb::object(nb::borrow(error_class)).release().ptr();
    }
  });
  nb::register_exception_translator(translate);
}

}  // namespace graft_python
