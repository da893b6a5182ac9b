// SPDX-License-Identifier: Apache-2.0
// What a pass is, what it is given, and the one wrapper that runs it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "graph/graph.h"

namespace graft {

/// What one run of a pass did, for `graft compile` and the tests.
struct PassStatistics {
  std::string_view pass{};
  double milliseconds = 0;
  bool disabled = false;
  bool changed = false;
  int nodes_before = 0, nodes_after = 0;
};

/// Weights of few bits that have fewer elements become floats all the same, which costs nothing.
inline constexpr int64_t kLeastPackedElements = int64_t{1} << 14;

/// What every pass is given. Passes do not depend on the target.
struct PassContext {
  /// The float type, f16 or bf16, that a network of f32 is lowered to; undefined: it stays f32.
  DType low_type = DType::kUndefined;
  /// Whether the machine has a unit that multiplies integers, or floats of 8 bits, of these types, weights on the
  /// right; null: products of dequantized tensors stay products of floats.
  std::function<bool(DType, DType)> multiplies_bytes;
  /// Whether the machine finds codes of 8 bits in a table of all 256 faster than it computes them.
  bool looks_up_bytes = false;
  /// Whether the machine's products decode weights of few bits as they read them, for rows of this type, and so many
  /// where that is known; null: such weights become floats.
  std::function<bool(DType type, std::optional<int64_t> rows)> decodes_weights;
  int64_t least_packed_elements = kLeastPackedElements;
  /// Folding makes no constant larger than this unless its inputs together are larger.
  int64_t max_folded_bytes = int64_t{16} << 20;
  /// Folding computes no node that needs more elementary steps in the interpreter than this.
  int64_t max_folded_steps = int64_t{1} << 26;
  /// Called between passes; true stops with a `cancelled` error.
  std::function<bool()> cancelled;
  /// Receives one entry per pass, in order, when given.
  std::vector<PassStatistics>* statistics = nullptr;
  /// Receives `pass: node: reason` for each near miss, beside the log.
  std::vector<std::string>* reasons = nullptr;
  const Environment* environment = &graft::environment();

  /// Records why a node that nearly matched was left as it is.
  void left(std::string_view pass, const Node& node, std::string_view reason) const;
};

/// Rewrites the graph and says whether it changed it. It may assume a verified graph with inferred types, and leaves
/// a graph that verifies; types of values that it adds may be left open.
using PassFunction = bool (*)(Graph&, const PassContext&);

/// One row of the pipeline.
struct Pass {
  std::string_view name;
  PassFunction function;
  std::string_view purpose;
  bool rounds = false;  ///< its results differ by what rounding to PassContext::low_type adds up to
};

/// The list in pipeline.cpp, in order. A name may come more than once.
const std::vector<Pass>& pipeline();
/// The row of that name, or null.
const Pass* find_pass(std::string_view name);

/// Runs one pass: cancel? disabled? time, run, infer again when changed, verify, dump, count. Returns whether the
/// graph changed. Throws what the pass throws, and an internal error naming the pass when its result does not verify.
bool run_pass(Graph& graph, const Pass& pass, const PassContext& context);
/// Runs the whole pipeline.
void run_passes(Graph& graph, const PassContext& context);

}  // namespace graft
