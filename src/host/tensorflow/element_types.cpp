// SPDX-License-Identifier: Apache-2.0
#include "element_types.h"

#include <utility>

#include "graft/graft_c.h"

namespace graft::tensorflow_host {
namespace {

constexpr std::pair<tensorflow::DataType, int32_t> kTypes[] = {
    {tensorflow::DT_FLOAT, GRAFT_FLOAT32},      {tensorflow::DT_DOUBLE, GRAFT_FLOAT64},
    {tensorflow::DT_HALF, GRAFT_FLOAT16},       {tensorflow::DT_BFLOAT16, GRAFT_BFLOAT16},
    {tensorflow::DT_INT8, GRAFT_INT8},          {tensorflow::DT_INT16, GRAFT_INT16},
    {tensorflow::DT_INT32, GRAFT_INT32},        {tensorflow::DT_INT64, GRAFT_INT64},
    {tensorflow::DT_UINT8, GRAFT_UINT8},        {tensorflow::DT_UINT16, GRAFT_UINT16},
    {tensorflow::DT_UINT32, GRAFT_UINT32},      {tensorflow::DT_UINT64, GRAFT_UINT64},
    {tensorflow::DT_BOOL, GRAFT_BOOL},          {tensorflow::DT_COMPLEX64, GRAFT_COMPLEX64},
    {tensorflow::DT_COMPLEX128, GRAFT_COMPLEX128},
};

}  // namespace

int32_t element_type(tensorflow::DataType type) {
  for (const auto& [theirs, ours] : kTypes) {
    if (theirs == type) return ours;
  }
  return 0;
}

tensorflow::DataType data_type(int32_t element_type) {
  for (const auto& [theirs, ours] : kTypes) {
    if (ours == element_type) return theirs;
  }
  return tensorflow::DT_INVALID;
}

}  // namespace graft::tensorflow_host
