// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

namespace graft {
namespace {

struct Row {
  DType type;
  std::string_view name;
  int bits;
  DTypeKind kind;
  int onnx;
};

constexpr Row kRows[] = {
    {DType::kUndefined, "undefined", 0, DTypeKind::kOpaque, 0},
#define GRAFT_DTYPE(enumerator, name, bits, kind, onnx) \
  {DType::enumerator, name, bits, DTypeKind::kind, onnx},
#include "base/dtypes.inc"
#undef GRAFT_DTYPE
};

const Row& row(DType type) { return kRows[static_cast<int>(type)]; }

}  // namespace

int bit_width(DType type) { return row(type).bits; }
DTypeKind kind_of(DType type) { return row(type).kind; }
std::string_view name_of(DType type) { return row(type).name; }
int onnx_code(DType type) { return row(type).onnx; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Row& r : kRows) {
    if (r.name == name && r.type != DType::kUndefined) return r.type;
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_onnx(int code) {
  for (const Row& r : kRows) {
    if (r.onnx == code && r.type != DType::kUndefined) return r.type;
  }
  return std::nullopt;
}

DType compute_type(DType type) {
  if (is_float(type) && bit_width(type) < 32) return DType::kFloat32;
  if (is_integer(type) && bit_width(type) < 8) return DType::kInt32;
  return type;
}

}  // namespace graft
