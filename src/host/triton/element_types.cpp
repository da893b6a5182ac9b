// SPDX-License-Identifier: Apache-2.0
#include "element_types.h"

#include "graft/graft_c.h"

namespace graft::triton {
namespace {

constexpr ElementType kTypes[] = {
    {GRAFT_BOOL, DataType::kBool, "TYPE_BOOL", 1},       {GRAFT_UINT8, DataType::kUint8, "TYPE_UINT8", 1},
    {GRAFT_UINT16, DataType::kUint16, "TYPE_UINT16", 2}, {GRAFT_UINT32, DataType::kUint32, "TYPE_UINT32", 4},
    {GRAFT_UINT64, DataType::kUint64, "TYPE_UINT64", 8}, {GRAFT_INT8, DataType::kInt8, "TYPE_INT8", 1},
    {GRAFT_INT16, DataType::kInt16, "TYPE_INT16", 2},    {GRAFT_INT32, DataType::kInt32, "TYPE_INT32", 4},
    {GRAFT_INT64, DataType::kInt64, "TYPE_INT64", 8},    {GRAFT_FLOAT16, DataType::kFloat16, "TYPE_FP16", 2},
    {GRAFT_FLOAT32, DataType::kFloat32, "TYPE_FP32", 4}, {GRAFT_FLOAT64, DataType::kFloat64, "TYPE_FP64", 8},
    {GRAFT_BFLOAT16, DataType::kBFloat16, "TYPE_BF16", 2},
    {GRAFT_STRING, DataType::kBytes, "TYPE_STRING", sizeof(graft_text)},
};

}  // namespace

const ElementType* element_type(int32_t graft) {
  for (const ElementType& type : kTypes) {
    if (type.graft == graft) return &type;
  }
  return nullptr;
}

}  // namespace graft::triton
