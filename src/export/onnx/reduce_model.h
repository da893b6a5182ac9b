// SPDX-License-Identifier: Apache-2.0
// A smaller model that shows the same fault: delta debugging over nodes, weights and sizes.
#pragma once

#include <functional>
#include <string>

#include "export/onnx/model_file.h"

namespace graft {

/// Whether a model still shows the fault. May throw to end the search.
using StillFails = std::function<bool(const ModelFile& model)>;
/// Told before each trial: what is tried, and how many nodes the smallest model so far has.
using ReduceProgress = std::function<void(const std::string& what, size_t nodes)>;

/// Removes nodes in ever smaller runs while the fault stays, then hands in weights as inputs or makes them zero, then
/// makes the sizes of inputs small; begins again until nothing more can be done. The same model and the same answers
/// give the same result. `still_fails` holds for the model itself.
ModelFile reduce_model(ModelFile model, const StillFails& still_fails, const ReduceProgress& progress = {});

}  // namespace graft
