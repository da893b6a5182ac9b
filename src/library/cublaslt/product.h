// SPDX-License-Identifier: Apache-2.0
// A product that cuBLASLt computes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "library/cublaslt/api.h"
#include "library/cublaslt/product_form.h"
#include "library/stream_handles.h"

namespace graft::cublaslt {

/// Ready to run on one stream; one thread at a time.
class Product {
 public:
  /// The `choice`-th way by cuBLASLt's own preference. Throws Error{unsupported} when there are not so many.
  Product(const ProductForm& form, int choice, void* stream);

  int64_t workspace_bytes() const { return static_cast<int64_t>(workspace_); }
  /// Puts the product into the stream. Returns 0 or cuBLASLt's status.
  int run(void* const* buffers, void* workspace);
  /// Which of how many ways.
  const std::string& implementation() const { return implementation_; }

 private:
  template <class T>
  using Owned = std::unique_ptr<T, cublasStatus_t (*)(T*)>;
  using Layout = Owned<cublasLtMatrixLayoutOpaque_t>;

  Layout layout(const Matrix& matrix) const;
  void describe();
  void choose(int choice);
  int run_at(void* const* buffers, void* workspace, const std::vector<int64_t>& at);

  ProductForm form_;
  cudaStream_t stream_;
  StreamHandles<cublasLtHandle_t>::Shared handle_;
  Owned<cublasLtMatmulDescOpaque_t> description_;
  Layout a_, b_, added_, result_;
  cublasLtMatmulAlgo_t algorithm_{};
  size_t workspace_ = 0;
  std::vector<int64_t> position_;  // of a run among the repeats
  std::string implementation_;
};

}  // namespace graft::cublaslt
