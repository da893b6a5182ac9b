// SPDX-License-Identifier: Apache-2.0
// A library call in the terms of cuBLASLt, without its types: D = epilogue(alpha A B + beta C + bias), matrices by
// columns.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "library/call.h"

namespace graft::cublaslt {

/// A matrix that lies by columns, or transposed by rows. Offsets and strides count elements.
struct Matrix {
  int buffer = -1;  ///< which buffer of a run
  int64_t offset = 0;
  bool transposed = false;
  int64_t rows = 1, columns = 1;  ///< as it lies: of the transposed matrix where that is set
  int64_t leading = 1;            ///< elements between columns
  int64_t batch_stride = 0;
};

enum class Activation : uint8_t { kNone, kRelu, kGeluTanh };

/// What one run computes, `batch` products at a time, for each of `repeats`.
struct ProductForm {
  DType type = DType::kFloat32;
  bool tf32 = false;
  int64_t batch = 1;
  float alpha = 1;
  Matrix a, b, result;
  std::optional<Matrix> added;  ///< C, with beta 1
  std::optional<Matrix> bias;   ///< one element for each row of the result
  Activation activation = Activation::kNone;
  /// Elements by which the operands move from one repeat to the next, outermost axis first.
  struct Repeat {
    int64_t count = 1;
    int64_t a = 0, b = 0, result = 0, added = 0;
  };
  std::vector<Repeat> repeats;
};

/// The form of a call with concrete sizes. Throws Error{unsupported} naming what cuBLASLt cannot do.
ProductForm product_form(const LibraryCall& call);

}  // namespace graft::cublaslt
