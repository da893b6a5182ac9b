// SPDX-License-Identifier: Apache-2.0
#include "api/given_tensor.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"

namespace graft::api_detail {
namespace {

/// Whether the strides are those of a row-major tensor.
bool is_row_major(const graft_tensor& tensor) {
  int64_t stride = 1;
  for (int32_t axis = tensor.rank; tensor.strides && axis-- > 0;) {
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != stride) return false;
    stride *= tensor.shape[axis];
  }
  return true;
}

}  // namespace

TensorData parameter_of(const graft_tensor& given, const std::string& name) {
  const auto type = dtype_from_onnx(given.dtype);
  GRAFT_USER_CHECK(type, kInvalidArgument, fmt::format("there is no element type {}", given.dtype), name);
  GRAFT_USER_CHECK(given.device == GRAFT_HOST || given.device == GRAFT_CPU, kInvalidArgument,
                   "it does not lie in host memory", name);
  GRAFT_USER_CHECK(is_row_major(given), kInvalidArgument, "it is not row-major", name);
  GRAFT_USER_CHECK(given.rank >= 0 && (given.rank == 0 || given.shape), kInvalidArgument, "it has no shape", name);
  std::vector<int64_t> shape(given.shape, given.shape + given.rank);
  const int64_t bytes = packed_bytes(*type, checked_element_count(*type, shape, name));
  GRAFT_USER_CHECK(given.bytes == 0 || given.bytes >= static_cast<uint64_t>(bytes), kInvalidArgument,
                   fmt::format("it has {} bytes, and its shape {}", given.bytes, bytes), name);
  if (!given.data) return TensorData::zeros(*type, {0});
  const auto* data = static_cast<const std::byte*>(given.data);
  return TensorData::borrow(*type, std::move(shape), {data, static_cast<size_t>(bytes)}, nullptr);
}

const graft_tensor& tensor_at(const graft_tensor* given, size_t index, const char* where) {
  const auto* bytes = reinterpret_cast<const std::byte*>(given) + index * given->struct_size;
  const auto& tensor = *reinterpret_cast<const graft_tensor*>(bytes);
  GRAFT_USER_CHECK(tensor.struct_size >= sizeof(graft_tensor), kInvalidArgument,
                   fmt::format("parameter {} has no struct_size", index), where);
  return tensor;
}

}  // namespace graft::api_detail
