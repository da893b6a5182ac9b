// SPDX-License-Identifier: Apache-2.0
// The functions of libcublasLt.so that are used, found at run time.
#pragma once

#include <cublasLt.h>

#include <string>

namespace graft::cublaslt {

/// cuBLASLt's entry points; `missing` says why there are none.
struct Api {
  std::string missing, path;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtGetStatusString) status_text = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) description_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) description_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) description_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
};

/// Opened once per process.
const Api& api();

/// Throws Error{unsupported} naming `what` and cuBLASLt's own words when `status` is not success.
void check(cublasStatus_t status, const char* what);

}  // namespace graft::cublaslt
