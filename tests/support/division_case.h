// SPDX-License-Identifier: Apache-2.0
// Integers that are divided, by zero too, on every device.
#pragma once

#include <string>
#include <vector>

namespace graft_test {

/// Runs graphs that divide integers, alone and fused into what reads the quotients, as kernels for each target: a zero
/// among the divisors must be told, by the interpreter as by kernels, and without one their results must agree.
void expect_division_by_zero_told(const std::vector<std::string>& targets);

}  // namespace graft_test
