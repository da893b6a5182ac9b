// SPDX-License-Identifier: Apache-2.0
// Integers divided by zero end a run, and nothing that no element of a tensor fills is divided.
#include <gtest/gtest.h>

#include "support/division_case.h"

namespace graft_test {
namespace {

TEST(Divisions, by_zero_are_told) { expect_division_by_zero_told({"sm_80", "sm_90a"}); }

}  // namespace
}  // namespace graft_test
