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

/// How far a model is compiled to be checked.
enum class CheckDepth : uint8_t {
  kChoices,  ///< schedules, by the record or the cost model; what the code generator refuses is not seen
  kCode,     ///< as `compile` does, code and tuning included
};

/// Compiles a model for the first target of the options, as far as asked, and keeps no plan. Where no code generator is
/// here, steps run as without one. Obstacles of all nodes are found, not only the first. Throws Error for files that
/// are no models and for choices that are wrong.
ModelCheck check_model(const ModelSource& source, const CompileOptions& options,
                       CheckDepth depth = CheckDepth::kChoices);

}  // namespace graft
