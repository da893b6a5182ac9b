// SPDX-License-Identifier: Apache-2.0
// Errors of the C interface on their way to torch, by the class that Python gives them.
#pragma once

#include <c10/util/Exception.h>

#include "graft/graft_c.h"

namespace graft::torchscript {

/// Throws what a failed call says.
inline void check(graft_status status, const graft_error& error) {
  if (status == GRAFT_OK) return;
  TORCH_CHECK_VALUE(status != GRAFT_INVALID_ARGUMENT && status != GRAFT_INVALID_MODEL, error.message);
  TORCH_CHECK_NOT_IMPLEMENTED(status != GRAFT_UNSUPPORTED, error.message);
  TORCH_CHECK(false, error.message);
}

}  // namespace graft::torchscript
