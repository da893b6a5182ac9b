// SPDX-License-Identifier: Apache-2.0
// The header of an .npy file, numpy's form of one tensor.
//
// Element types that numpy lacks are stored as the package ml_dtypes has them saved, with their shape: bf16 as `<V2`,
// the 8-bit floats and everything narrower as `|V1`, one element per byte in its lowest bits.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/tensor_data.h"

namespace graft {

/// What the header of an .npy file says about the data behind it.
struct NpyHeader {
  DType type = DType::kUndefined;  ///< as numpy means it; of raw bits, an unsigned integer
  int width = 0;                   ///< bytes of an element
  bool raw = false;                ///< the elements are bits without a meaning (numpy's void)
  bool swapped = false;            ///< big-endian
  bool column_major = false;
  std::vector<int64_t> shape;
  size_t length = 0;  ///< bytes before the data
};

/// Reads the header at the start of an .npy file (versions 1 to 3). `bytes` may end behind it. Throws invalid_argument
/// naming `where` for anything malformed.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& where);
/// No header is longer, so this much of a file has all of it.
constexpr size_t kMaxNpyHeader = 12 + 65535;

/// The element type that the data becomes when `wanted` is expected: bits become that type when their width is its
/// own, anything else stays what it is.
DType element_type(const NpyHeader& header, std::optional<DType> wanted, const std::string& where);

/// The header for a tensor. Throws unsupported for strings.
std::string print_npy_header(const TensorData& tensor, const std::string& where);

}  // namespace graft
