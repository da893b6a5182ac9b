// SPDX-License-Identifier: Apache-2.0
// Errors of the C interface on their way to Python.
#pragma once

#include <stdexcept>
#include <string>

#include <nanobind/nanobind.h>

#include "graft/graft_c.h"

namespace graft_python {

/// A status with its message; becomes the Python class of its kind (graft/errors.py).
class Failure : public std::runtime_error {
 public:
  Failure(graft_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  graft_status status() const { return status_; }

 private:
  graft_status status_;
};

/// Throws what a failed call says. A pending Python exception (a signal's, a callback's) goes first: it is the cause.
void check(graft_status status, const graft_error& error);

/// The exception of a failed call, as an object.
nanobind::object exception_of(graft_status status, const char* message);

/// `_graft.set_error_classes`: class by status, and the translator that raises them.
void bind_failures(nanobind::module_& module);

}  // namespace graft_python
