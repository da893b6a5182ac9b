// SPDX-License-Identifier: Apache-2.0
// Tensors in numpy's files: .npy (one tensor) and .npz (a zip archive of them).
//
// Element types that numpy lacks (bf16, the 8-bit floats, types narrower than a byte) travel in an .npz as bytes under
// `NAME@TYPE[SIZES]`, for example `weights@bf16[2,3]`.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor_data.h"

namespace graft {

/// Tensors with their names, in the order of a file.
using NamedTensors = std::vector<std::pair<std::string, TensorData>>;

/// Reads the contents of an .npy file (versions 1 to 3, both orders, little-endian). Throws invalid_argument naming
/// `where` for anything malformed.
TensorData parse_npy(std::span<const std::byte> bytes, const std::string& where);
/// The contents of an .npy file; a type that numpy lacks becomes its bytes.
std::string print_npy(const TensorData& tensor);

/// Reads an .npz file with stored or deflated entries, checking every offset, size and checksum.
NamedTensors read_npz(const std::string& path);
/// Writes an .npz file, whole or not at all.
void write_npz(const std::string& path, const NamedTensors& tensors);

}  // namespace graft
