// SPDX-License-Identifier: Apache-2.0
// The text of instructions in inline PTX.
#pragma once

#include <string>

namespace graft::emulator {

/// The instructions of one asm statement as calls of functions of device/ptx.h; operand %n is the variable `on`.
/// Throws std::runtime_error.
std::string calls_of(const std::string& ptx);

}  // namespace graft::emulator
