// SPDX-License-Identifier: Apache-2.0
#include "import/mxnet/sparse_array.h"

#include <cstring>

#include <fmt/format.h>

#include "base/error.h"

namespace graft::mxnet {
namespace {

constexpr int32_t kRowSparse = 1;

void check(bool holds, const std::string& message, const std::string& where) {
  GRAFT_USER_CHECK(holds, kInvalidModel, message, where);
}

void check_indices(const TensorData& indices, int64_t limit, const std::string& what, const std::string& where) {
  for (int64_t i = 0; i < indices.element_count(); ++i) {
    const int64_t index = indices.read_integer(i);
    check(index >= 0 && index < limit, fmt::format("{} {} is outside of {}", what, index, limit), where);
  }
}

/// Bytes of one row of a shape.
size_t row_bytes(const TensorData& array, const std::vector<int64_t>& shape) {
  size_t bytes = static_cast<size_t>(bit_width(array.type())) / 8;
  for (size_t axis = 1; axis < shape.size(); ++axis) bytes *= static_cast<size_t>(shape[axis]);
  return bytes;
}

TensorData from_rows(const SparseArray& array, const std::vector<int64_t>& shape) {
  TensorData result = TensorData::zeros(array.data.type(), shape);
  const size_t bytes = row_bytes(array.data, shape);
  std::byte* const to = result.mutable_bytes().data();
  for (int64_t i = 0; bytes > 0 && i < array.indices[0].element_count(); ++i) {
    const auto row = static_cast<size_t>(array.indices[0].read_integer(i));
    std::memcpy(to + row * bytes, array.data.bytes().data() + static_cast<size_t>(i) * bytes, bytes);
  }
  return result;
}

TensorData from_elements(const SparseArray& array, const std::vector<int64_t>& shape) {
  TensorData result = TensorData::zeros(array.data.type(), shape);
  const size_t width = static_cast<size_t>(bit_width(array.data.type())) / 8;
  std::byte* const to = result.mutable_bytes().data();
  const TensorData &begins = array.indices[0], &columns = array.indices[1];
  for (int64_t row = 0; row < shape[0]; ++row) {
    for (int64_t i = begins.read_integer(row); i < begins.read_integer(row + 1); ++i) {
      const auto place = static_cast<size_t>(row * shape[1] + columns.read_integer(i));
      std::memcpy(to + place * width, array.data.bytes().data() + static_cast<size_t>(i) * width, width);
    }
  }
  return result;
}

}  // namespace

void check_sparse(const SparseArray& array, const std::vector<int64_t>& shape, const std::string& where) {
  const auto is_row = [](const TensorData& indices) { return is_integer(indices.type()) && indices.rank() == 1; };
  for (const TensorData& indices : array.indices) check(is_row(indices), "its indices are no row of integers", where);
  if (array.storage == kRowSparse) {
    std::vector<int64_t> expected = shape;
    if (!expected.empty()) expected[0] = array.indices[0].element_count();
    check(!shape.empty() && array.data.shape() == expected, "its rows are not those that its indices count", where);
    return check_indices(array.indices[0], shape[0], "the row", where);
  }
  check(shape.size() == 2 && array.data.rank() == 1, "a csr array is a matrix", where);
  const TensorData &begins = array.indices[0], &columns = array.indices[1];
  const int64_t count = array.data.element_count();
  check(columns.element_count() == count && begins.element_count() - 1 == shape[0],
        "its indices are not as many as its elements and rows", where);
  for (int64_t row = 0; row < shape[0]; ++row) {
    const int64_t begin = begins.read_integer(row), end = begins.read_integer(row + 1);
    check(0 <= begin && begin <= end && end <= count, fmt::format("row {} does not lie in its elements", row), where);
  }
  check_indices(columns, shape[1], "the column", where);
}

TensorData dense(const SparseArray& array, const std::vector<int64_t>& shape) {
  return TensorData::deferred(array.data.type(), shape, [array, shape] {
    return array.storage == kRowSparse ? from_rows(array, shape) : from_elements(array, shape);
  });
}

}  // namespace graft::mxnet
