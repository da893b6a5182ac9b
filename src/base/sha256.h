// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), for fingerprints that other tools can check: `sha256sum model.onnx`.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace graft {

/// 64 lower-case hexadecimal digits.
std::string sha256(std::span<const std::byte> bytes);

}  // namespace graft
