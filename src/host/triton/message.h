// SPDX-License-Identifier: Apache-2.0
// Messages of Triton's, which are JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "triton.h"

namespace graft::triton {

/// Reads a message, and deletes it if it is the caller's. Throws ServerFailure.
nlohmann::json read_message(TRITONSERVER_Message* message, bool owned = true);

}  // namespace graft::triton
