// SPDX-License-Identifier: Apache-2.0
// MXNet's sparse arrays: rows that are there (row_sparse), or elements by row and column (csr).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/tensor_data.h"

namespace graft::mxnet {

/// What a file has of one. Of row_sparse: `data` [rows that are there, ...] and their numbers. Of csr: `data` [elements
/// that are there], where each row of the matrix begins and ends in it, and the columns.
struct SparseArray {
  int32_t storage = 1;  ///< 1: row_sparse; 2: csr
  TensorData data = {};
  std::vector<TensorData> indices = {};  ///< of row_sparse one, of csr two
  /// The shape of the data that the file states. MXNet may write 0 for its first size, before it has waited for the
  /// array, and counts by the indices when it loads.
  std::vector<int64_t> stated_shape = {};
};

/// Throws invalid_model naming `where` unless all indices lie inside an array of that shape.
void check_sparse(const SparseArray& array, const std::vector<int64_t>& shape, const std::string& where);

/// All elements, made when somebody asks for them.
TensorData dense(const SparseArray& array, const std::vector<int64_t>& shape);

}  // namespace graft::mxnet
