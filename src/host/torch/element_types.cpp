// SPDX-License-Identifier: Apache-2.0
#include "element_types.h"

#include <string_view>

#include "graft/graft_c.h"

namespace graft::torchscript {
namespace {

struct Row {
  c10::ScalarType torch;
  int32_t graft;
  std::string_view name;
};

using Type = c10::ScalarType;
constexpr Row kTypes[] = {
    {Type::Float, GRAFT_FLOAT32, "float32"},
    {Type::Double, GRAFT_FLOAT64, "float64"},
    {Type::Half, GRAFT_FLOAT16, "float16"},
    {Type::BFloat16, GRAFT_BFLOAT16, "bfloat16"},
    {Type::Long, GRAFT_INT64, "int64"},
    {Type::Int, GRAFT_INT32, "int32"},
    {Type::Short, GRAFT_INT16, "int16"},
    {Type::Char, GRAFT_INT8, "int8"},
    {Type::Byte, GRAFT_UINT8, "uint8"},
    {Type::UInt16, GRAFT_UINT16, "uint16"},
    {Type::UInt32, GRAFT_UINT32, "uint32"},
    {Type::UInt64, GRAFT_UINT64, "uint64"},
    {Type::Bool, GRAFT_BOOL, "bool"},
    {Type::ComplexFloat, GRAFT_COMPLEX64, "complex64"},
    {Type::ComplexDouble, GRAFT_COMPLEX128, "complex128"},
    {Type::Float8_e4m3fn, GRAFT_FLOAT8E4M3FN, "float8_e4m3fn"},
    {Type::Float8_e4m3fnuz, GRAFT_FLOAT8E4M3FNUZ, "float8_e4m3fnuz"},
    {Type::Float8_e5m2, GRAFT_FLOAT8E5M2, "float8_e5m2"},
    {Type::Float8_e5m2fnuz, GRAFT_FLOAT8E5M2FNUZ, "float8_e5m2fnuz"},
};

}  // namespace

int32_t element_type(c10::ScalarType type) {
  for (const Row& row : kTypes) {
    if (row.torch == type) return row.graft;
  }
  return 0;
}

std::optional<c10::ScalarType> scalar_type(int32_t element_type) {
  for (const Row& row : kTypes) {
    if (row.graft == element_type) return row.torch;
  }
  return std::nullopt;
}

std::optional<c10::ScalarType> scalar_type_named(std::string_view name) {
  for (const Row& row : kTypes) {
    if (row.name == name) return row.torch;
  }
  return std::nullopt;
}

}  // namespace graft::torchscript
