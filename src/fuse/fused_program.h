// SPDX-License-Identifier: Apache-2.0
// The program between graph and kernels: tensors, and steps that are regions over them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/control_flow.h"
#include "base/derived_sizes.h"
#include "base/tensor_data.h"
#include "graph/op_def.h"

namespace graft {

/// A tensor that steps read and write.
struct FusedTensor {
  std::string name;  ///< the model's own name where it has one
  DType type = DType::kUndefined;
  Shape shape;
  std::optional<TensorData> constant;
  /// Same memory as another tensor, seen in another shape; -1: memory of its own.
  int alias_of = -1;
  std::string handles = {};  ///< what its u64 elements stand for, see EngineTensor; empty for numbers
};

/// A symbol that gets its value from an element of a tensor while the program runs.
struct SymbolSource {
  std::string symbol;
  int tensor = -1;
  int64_t element = 0;
};

struct FusedProgram;

/// One region to run; becomes one kernel launch or library call. Or bodies to run, or a kernel of the host: then the
/// region has no forms.
struct FusedStep {
  std::string name;                    ///< from the model's node names
  std::vector<std::string> nodes;      ///< all of them, for profiles and errors
  std::vector<std::string> operators;  ///< their operator names, in the same order
  Region region;
  std::vector<int> inputs, outputs;   ///< tensors, in the order of the region's inputs and outputs
  std::vector<SymbolSource> sources;  ///< to be read before the step
  std::vector<SizeCheck> checks;      ///< to be checked before the step
  std::string count_symbol;           ///< set by the step (Compact); empty for none
  std::vector<std::shared_ptr<const FusedProgram>> bodies;  ///< of control flow
  ControlFlow control;                                      ///< where there are bodies
  std::shared_ptr<const Node> host;  ///< of plain C++: its inputs and outputs are positions in `inputs` and `outputs`
};

/// Steps in execution order.
struct FusedProgram {
  std::vector<FusedTensor> tensors;
  std::vector<FusedStep> steps;
  std::vector<int> inputs, outputs;
  std::map<std::string, Graph::Range, std::less<>> symbol_ranges;
  std::vector<DerivedSize> derived;  ///< what shapes name beside the symbols of inputs and steps, in order
  std::vector<std::string> notes;  ///< why something was not fused, for `graft check`
  std::string prefix;  ///< of a body: `NODE/ATTRIBUTE/`, which goes before the names of its constants in a plan
};

/// What is better depends on the machine.
struct FusionChoices {
  /// The sum of a product and another tensor of its size is taken where rows of it are reduced, if nowhere else: a
  /// library's products are faster alone, and the rows are read either way.
  bool sums_with_rows = false;
  /// Where one operator is cut into steps, a product keeps the maps that gather its columns (fuse/gathered_columns.h).
  bool gathers_columns = false;
  /// What a window that slides beside its channels reads is computed once for all of its points (tile/lower_window).
  bool stages_windows = false;
  std::vector<bool> any_order = {};  ///< by output of the graph: whether its axes may lie as kernels store them
  std::function<bool()> cancelled = {};  ///< asked before each step; true stops with Error{cancelled}
};

/// Groups the nodes of a graph into regions: maps go with the contraction, reduction or map that makes their input,
/// views are read through. Throws unsupported naming the node when one has no definition.
FusedProgram fuse(const Graph& graph, const FusionChoices& choices = {});

/// Applies `change` to the program and to those of its bodies.
void for_each_program(FusedProgram& program, const std::function<void(FusedProgram&)>& change);

/// Lets the products of contractions round their operands to tf32, where a machine has units for that.
void allow_tf32(FusedProgram& program);
/// Has contractions done by multiply-adds, not by units that split their operands.
void keep_multiply_adds(FusedProgram& program);

/// The canonical text of a fused program (regions inside), for dumps and `--compile-to fuse`.
std::string print(const FusedProgram& program);

}  // namespace graft
