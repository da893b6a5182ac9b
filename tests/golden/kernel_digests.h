// SPDX-License-Identifier: Apache-2.0
// What becomes of every operator on every kind of machine, as digests: a change of fusion, lowering or a code generator
// shows which kernels it changes.
#pragma once

#include <string>
#include <vector>

#include "support/golden_file.h"

namespace graft {

/// Why this build cannot make the digests of a file, whose heading names the LLVM that they are of; else empty.
std::string why_no_digests(const golden::File& file);

/// The digests for a case of tests/golden/kernels, whose input says what is compiled. GRAFT_KERNEL_TEXTS=FOLDER also
/// writes there what they are of.
std::string kernel_digests(const golden::File& file, const golden::Case& c);

/// The operators with samples that no case names.
std::vector<std::string> operators_without_case(const golden::File& file);

}  // namespace graft
