// SPDX-License-Identifier: Apache-2.0
// Steps in the interpreter: the last fallback, and the reference that validation compares kernels with.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "expr/region.h"

namespace graft {

/// The regions of an engine's steps that runs need: of those that the interpreter runs and of those that count.
using ParsedRegions = std::map<int, std::shared_ptr<const Region>>;
/// Reads them, once for all sessions.
ParsedRegions parse_regions(const Engine& engine);

/// A step in the interpreter.
struct ReferenceStep {
  std::shared_ptr<const Region> region;
  int64_t last_count = 0;  ///< what the step's Compact kept
};

/// Runs step `index` in the interpreter on buffers given in the order of its tensors.
void interpret_step(const Engine& engine, int index, std::span<void* const> buffers, const Bindings& bindings,
                    std::map<int, ReferenceStep>& references);
/// Runs it beside the kernel, whose outputs are in `buffers`; throws internal naming the node, the output and the first
/// element that differs by more than rounding.
void validate_step(const Engine& engine, int index, std::span<void* const> buffers, const Bindings& bindings,
                   std::map<int, ReferenceStep>& references);
/// The most that the step's Compact can keep.
int64_t compact_bound(const Engine& engine, int index, const Bindings& bindings,
                      std::map<int, ReferenceStep>& references);
/// The same for all sizes, of a step that counts.
Size compact_bound(const EngineStep& step);

}  // namespace graft
