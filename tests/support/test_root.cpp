// SPDX-License-Identifier: Apache-2.0
#include "support/test_root.h"

#include <cstdlib>

namespace graft {
namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

}  // namespace

std::string test_root() { return variable("GRAFT_TEST_ROOT", GRAFT_SOURCE_DIR); }

std::string test_python() { return variable("GRAFT_TEST_PYTHON", GRAFT_PYTHON_PREFIX "/bin/python"); }

}  // namespace graft
