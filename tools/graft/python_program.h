// SPDX-License-Identifier: Apache-2.0
// The Python that programs of the command run in.
#pragma once

#include <string>
#include <string_view>

namespace graft {

/// An interpreter that has the packages, as a list for Python ('numpy', 'onnxruntime'): of the active environment, what
/// `python3` is here, or the one beside the build. Where none has them, the first, whose message says what it lacks.
std::string find_python(std::string_view packages);

/// The folder in which Python finds the package `graft` that came with this command; empty: there is none.
std::string python_package_folder();

}  // namespace graft
