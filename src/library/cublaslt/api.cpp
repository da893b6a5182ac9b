// SPDX-License-Identifier: Apache-2.0
#include "library/cublaslt/api.h"

#include <fmt/format.h>

#include "base/cuda_library.h"
#include "base/error.h"

namespace graft::cublaslt {
namespace {

Api open_api() {
  CudaLibrary library = open_cuda_library("cublasLt", {13, 12});
  Api api{.path = library.path};
  library.require(api.create, "cublasLtCreate");
  library.require(api.destroy, "cublasLtDestroy");
  library.require(api.version, "cublasLtGetVersion");
  library.require(api.status_text, "cublasLtGetStatusString");
  library.require(api.matmul, "cublasLtMatmul");
  library.require(api.description_create, "cublasLtMatmulDescCreate");
  library.require(api.description_destroy, "cublasLtMatmulDescDestroy");
  library.require(api.description_set, "cublasLtMatmulDescSetAttribute");
  library.require(api.layout_create, "cublasLtMatrixLayoutCreate");
  library.require(api.layout_destroy, "cublasLtMatrixLayoutDestroy");
  library.require(api.layout_set, "cublasLtMatrixLayoutSetAttribute");
  library.require(api.preference_create, "cublasLtMatmulPreferenceCreate");
  library.require(api.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  library.require(api.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  library.require(api.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  api.missing = library.missing;
  return api;
}

}  // namespace

const Api& api() {
  static const Api instance = open_api();
  return instance;
}

void check(cublasStatus_t status, const char* what) {
  GRAFT_USER_CHECK(status == CUBLAS_STATUS_SUCCESS, kUnsupported,
                   fmt::format("{}: {}", what, api().status_text(status)), "cuBLASLt");
}

}  // namespace graft::cublaslt
