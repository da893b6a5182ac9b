// SPDX-License-Identifier: Apache-2.0
// Element types of tensors: their names, widths and kinds, from the one table dtypes.inc.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace graft {

/// What arithmetic an element type takes part in.
enum class DTypeKind : uint8_t { kFloat, kSigned, kUnsigned, kBoolean, kComplex, kOpaque };

/// The element type of a tensor.
enum class DType : uint8_t {
  kUndefined,
#define GRAFT_DTYPE(enumerator, name, bits, kind, onnx) enumerator,
#include "base/dtypes.inc"
#undef GRAFT_DTYPE
};

/// Packed width of one element in bits (4 for int4).
int bit_width(DType type);
DTypeKind kind_of(DType type);
/// Short name as printed in every text form: f32, i64, bool.
std::string_view name_of(DType type);
std::optional<DType> parse_dtype(std::string_view name);
/// The code ONNX gives this type in TensorProto.DataType.
int onnx_code(DType type);
std::optional<DType> dtype_from_onnx(int code);

inline bool is_float(DType type) { return kind_of(type) == DTypeKind::kFloat; }
inline bool is_integer(DType type) {
  return kind_of(type) == DTypeKind::kSigned || kind_of(type) == DTypeKind::kUnsigned;
}
inline bool is_unsigned(DType type) { return kind_of(type) == DTypeKind::kUnsigned; }

/// Bytes that `elements` packed elements take.
inline int64_t packed_bytes(DType type, int64_t elements) {
  return (elements * bit_width(type) + 7) / 8;
}

/// The type in which arithmetic on `type` is carried out before it is rounded back:
/// f32 for every float narrower than 32 bits, i32 for integers narrower than a byte, else itself.
DType compute_type(DType type);

}  // namespace graft
