// SPDX-License-Identifier: Apache-2.0
// A shared library that is no module of this version is refused with its path and the remedy.
#include "modules/open_module.h"

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"

namespace graft {
namespace {

TEST(OpenModule, refuses_a_library_of_another_version) {
  try {
    open_module("other", "libm.so.6");
    FAIL() << "it was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDevice);
    const std::string text = error.what();
    EXPECT_NE(text.find("libm.so.6"), std::string::npos) << text;
    EXPECT_NE(text.find("it is of another version, this is " GRAFT_VERSION), std::string::npos) << text;
    EXPECT_NE(text.find("install the library and its modules together"), std::string::npos) << text;
  }
}

TEST(OpenModule, opens_the_modules_beside_this_program) {
  const std::string path = find_module("llvm");
  if (path.empty()) GTEST_SKIP() << "this build has no CPU code generator";
  EXPECT_NE(module_function(open_module("llvm", path), "graft_codegen_compile"), nullptr);
}

}  // namespace
}  // namespace graft
