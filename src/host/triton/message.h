// SPDX-License-Identifier: Apache-2.0
// Messages of Triton's, which are JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "triton.h"

namespace graft::triton {

/// Reads a message, and deletes it if it is the caller's. Throws ServerFailure.
nlohmann::json read_message(TRITONSERVER_Message* message, bool owned = true);

/// `--backend-config=graft,KEY=VALUE` or `--backend-config=KEY=VALUE` of the server; empty where it was not given.
std::string backend_option(TRITONBACKEND_Backend* backend, const char* key);

}  // namespace graft::triton
