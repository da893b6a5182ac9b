// SPDX-License-Identifier: Apache-2.0
// Whether a run of an engine stays inside its memory, whatever the plan file says.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"

namespace graft {

/// Checks everything in an engine that a run follows: indices, alias chains, order of writing and reading, lifetimes
/// against the steps, sizes against memory, regions, symbols. Throws invalid_model naming tensor, step or kernel.
/// What depends on the sizes of a run and is not seen to hold for all of them goes into EngineStep::bounds, which are
/// evaluated once for each signature. Kernels' programs are not looked at: see EngineKernel::program.
void verify(Engine& engine);

/// The bytes that a tensor's memory has at least: all of these hold. The engine's aliases are known to be sound.
std::vector<Size> capacities(const Engine& engine, int tensor);
/// Requires that `bytes` of the tensor's memory may be touched by the step: at once where that is seen to hold, as a
/// bound of the step otherwise. Throws invalid_model when it never holds; `what` needs the bytes.
void require_bytes(Engine& engine, int step, int tensor, const Size& bytes, const std::string& what);
/// Bytes of a row-major tensor.
Size dense_bytes(DType type, const Shape& shape);

}  // namespace graft
