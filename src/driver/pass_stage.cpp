// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "driver/stages.h"
#include "target/units.h"

namespace graft {
namespace {

/// Whether all of the targets have a unit that multiplies 8-bit elements of given types; null where they have none of
/// integers.
std::function<bool(DType, DType)> byte_units_of(const std::vector<Target>& targets) {
  const auto all_multiply = [targets](DType a, DType b) {
    const DType sum = is_float(a) ? DType::kFloat32 : DType::kInt32;
    return std::all_of(targets.begin(), targets.end(),
                       [&](const Target& target) { return best_unit(target, a, b, sum) != nullptr; });
  };
  for (const DType a : {DType::kUint8, DType::kInt8}) {
    for (const DType b : {DType::kUint8, DType::kInt8}) {
      if (all_multiply(a, b)) return all_multiply;
    }
  }
  return nullptr;
}

/// Which products decode weights on all of the targets: all on CPUs; on GPUs those of 16-bit rows, which matrix units
/// multiply, of which there are few or a number that only a run knows. Many rows are faster on weights as floats.
std::function<bool(DType, std::optional<int64_t>)> decoding_of(const std::vector<Target>& targets) {
  constexpr int64_t kMostRows = 256;
  return [targets](DType type, std::optional<int64_t> rows) {
    return std::all_of(targets.begin(), targets.end(), [&](const Target& target) {
      return target.kind == TargetKind::kCpu || (bit_width(type) == 16 && (!rows || *rows <= kMostRows));
    });
  };
}

}  // namespace

void rewrite(Graph& graph, const CompileOptions& options, CompileNotes* notes) {
  const Environment merged = with_disabled(options);
  PassContext context{.low_type = low_type(options.precision), .cancelled = options.cancelled, .environment = &merged};
  const std::vector<Target> targets = targets_of(options);
  context.multiplies_bytes = byte_units_of(targets);
  // By an instruction that permutes bytes, or one by one: not yet measured on GPUs.
  context.looks_up_bytes = std::all_of(targets.begin(), targets.end(),
                                       [](const Target& target) { return target.kind == TargetKind::kCpu; });
  context.decodes_weights = decoding_of(targets);
  if (notes) context.statistics = &notes->passes, context.reasons = &notes->reasons;
  report(options, name_of(Stage::kPasses), fmt::format("{} nodes", graph.nodes.size()));
  run_passes(graph, context);
  dump("graph", "passes", [&] { return print(graph); });
}

}  // namespace graft
