// SPDX-License-Identifier: Apache-2.0
// A model's configuration as JSON: completed from an engine, and compared with it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "signature.h"

namespace graft::triton {

/// Writes what the configuration leaves out: max_batch_size and dynamic batching where the engine has a batch, names,
/// types and dims of inputs and outputs. What it says stays. `default_rows`: max_batch_size where the engine's batch is
/// unbounded.
void complete(nlohmann::json& config, const Signature& signature, int64_t default_rows);

/// For each of the engine's outputs whether a sequence keeps it for its next request (sequence_batching { state }).
std::vector<bool> kept_outputs(const nlohmann::json& config, const Signature& signature);

/// Throws Error where the configuration says something else than the engine is.
void compare(const nlohmann::json& config, const Signature& signature);

}  // namespace graft::triton
