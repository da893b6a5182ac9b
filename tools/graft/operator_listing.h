// SPDX-License-Identifier: Apache-2.0
// graft ops of other tables than the operators themselves: a front end's, and the lists of mixed precision.
#pragma once

#include <string>
#include <vector>

namespace graft {

/// The operators that a front end (`aten`, `mxnet`, `tensorflow`) converts, with their arguments; those whose names
/// contain `part`, and whose row each is: those of `libraries` stand beside. Returns the exit status: 1 without any.
int list_front_end(const std::string& front_end, const std::string& part, const std::vector<std::string>& libraries);

/// What each operator is in a model of mixed precision unless the caller's lists say otherwise, of ONNX or of another
/// front end. Throws invalid_argument for one that has no lists.
int list_precision(const std::string& precision, const std::string& front_end, const std::string& part);

}  // namespace graft
