// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "driver/stages.h"
#include "fuse/assign_layouts.h"
#include "graph/bodies.h"
#include "passes/edit.h"

namespace graft {

FusedProgram fuse_for(const Target& target, const Graph& graph, const CompileOptions& options, CompileNotes* notes) {
  report(options, name_of(Stage::kFuse), fmt::format("{} nodes", graph.nodes.size()));
  Graph read = graph;
  passes::rewrite_with_bodies(read, passes::sweep);  // what nobody reads is no step, whoever wrote the graph
  FusedProgram program = fuse(read, {.sums_with_rows = target.kind == TargetKind::kCuda,
                                     .gathers_columns = target.kind == TargetKind::kCuda,
                                     .stages_windows = target.kind == TargetKind::kCpu,
                                     .any_order = options.any_order,
                                     .cancelled = options.cancelled});
  if (target.kind == TargetKind::kCpu) for_each_program(program, turn_results);
  if (options.precision == Precision::kTf32) for_each_program(program, allow_tf32);
  if (target.kind == TargetKind::kCuda && !options.splits_operands) for_each_program(program, keep_multiply_adds);
  if (notes) notes->reasons.insert(notes->reasons.end(), program.notes.begin(), program.notes.end());
  dump("region", "fuse", [&] { return print(program); });
  return program;
}

FusedProgram fuse(Graph graph, const CompileOptions& options, CompileNotes* notes) {
  return fuse_for(targets_of(options)[0], graph, options, notes);
}

}  // namespace graft
