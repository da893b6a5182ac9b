// SPDX-License-Identifier: Apache-2.0
// The driver of loading: from a plan, or an engine just compiled, to code that runs.
#pragma once

#include <memory>
#include <string>

#include "engine/engine.h"
#include "runtime/session.h"

namespace graft {

/// Reads a plan and completes it with the code of its kernels, from the cache or compiled. Throws Error naming the
/// section and the remedy for a file that is damaged, foreign, or made for another machine.
std::shared_ptr<const LoadedEngine> load(const std::string& path);

/// The same for an engine in memory.
std::shared_ptr<const LoadedEngine> load(Engine engine);

/// Whether the file begins like a plan (rather than a model); false when it cannot be read.
bool is_plan(const std::string& path);

}  // namespace graft
