// SPDX-License-Identifier: Apache-2.0
// Will a model run here, how, and what stands in the way.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "driver/compile.h"

namespace graft {

/// A node that cannot run, and why.
struct Obstacle {
  std::string node, op, reason;  ///< the operator with its domain, unless that is ONNX's own
};

/// What stands in the way, or how each step would run.
struct ModelCheck {
  size_t nodes = 0, nodes_after_passes = 0;  ///< of the model, and after the passes
  std::vector<Obstacle> obstacles;
  std::optional<Engine> engine;  ///< where there are no obstacles
  CompileNotes notes;
};

/// Compiles a model as `compile` does, for the first target of the options, and keeps no plan. Obstacles of all nodes
/// are found, not only the first. Throws Error for files that are no models and for choices that are wrong.
ModelCheck check_model(const ModelSource& source, const CompileOptions& options);

}  // namespace graft
