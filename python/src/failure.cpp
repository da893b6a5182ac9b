// SPDX-License-Identifier: Apache-2.0
#include "failure.h"

#include <cstring>

namespace nb = nanobind;

namespace graft_python {
namespace {

/// Class of each graft_status, as graft/errors.py hands them in; lives as long as the module.
PyObject* classes[GRAFT_INTERNAL + 1] = {};

PyObject* class_of(graft_status status) {
  const bool known = status > 0 && status <= GRAFT_INTERNAL && classes[status];
  return known ? classes[status] : PyExc_RuntimeError;
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Failure& failure) {
    PyErr_SetString(class_of(failure.status()), failure.what());
  }
}

}  // namespace

void check(graft_status status, const graft_error& error) {
  if (status == GRAFT_OK) return;
  if (PyErr_Occurred()) throw nb::python_error();
  throw Failure(status, error.message);
}

nb::object exception_of(graft_status status, const char* message) {
  const auto bytes = static_cast<Py_ssize_t>(std::strlen(message));
  return nb::borrow(class_of(status))(nb::steal(PyUnicode_DecodeUTF8(message, bytes, "replace")));
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
