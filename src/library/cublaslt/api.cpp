// SPDX-License-Identifier: Apache-2.0
#include "library/cublaslt/api.h"

#include <type_traits>

#include <fmt/format.h>

#include "base/cuda_library.h"
#include "base/error.h"

namespace graft::cublaslt {
namespace {

Api open_api() {
  const CudaLibrary library = open_cuda_library("cublasLt", {13, 12});
  Api api{.missing = library.missing, .path = library.path};
  if (!library.handle) return api;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(library.find(name));
    if (!function && api.missing.empty()) api.missing = fmt::format("{} is too old: it has no {}", library.path, name);
  };
  find(api.create, "cublasLtCreate");
  find(api.destroy, "cublasLtDestroy");
  find(api.version, "cublasLtGetVersion");
  find(api.status_text, "cublasLtGetStatusString");
  find(api.matmul, "cublasLtMatmul");
  find(api.description_create, "cublasLtMatmulDescCreate");
  find(api.description_destroy, "cublasLtMatmulDescDestroy");
  find(api.description_set, "cublasLtMatmulDescSetAttribute");
  find(api.layout_create, "cublasLtMatrixLayoutCreate");
  find(api.layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(api.layout_set, "cublasLtMatrixLayoutSetAttribute");
  find(api.preference_create, "cublasLtMatmulPreferenceCreate");
  find(api.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(api.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  find(api.heuristic, "cublasLtMatmulAlgoGetHeuristic");
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
