// SPDX-License-Identifier: Apache-2.0
// Where tests find their files: in the checkout that they were built from, or where a bundle was unpacked.
#pragma once

#include <string>

namespace graft {

/// The folder that holds tests/ and models/: GRAFT_TEST_ROOT, or the checkout.
std::string test_root();
/// The Python with onnx and ONNX Runtime: GRAFT_TEST_PYTHON, or the project's own.
std::string test_python();

}  // namespace graft
