// SPDX-License-Identifier: Apache-2.0
// What a caller chooses before compiling, and the text form that the command line and the C interface share.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "driver/plan_metadata.h"
#include "graph/graph.h"
#include "modules/kernel_source.h"
#include "plan/build_options.h"
#include "target/target.h"

namespace graft {

/// Shapes by the name of the input.
using InputShapes = std::map<std::string, std::vector<int64_t>, std::less<>>;

/// Tells how far compiling is: step `done` of `total` (0 when unknown) of a stage.
using Progress = std::function<void(std::string_view stage, std::string_view step, int done, int total)>;

/// What the floats of an f32 network are stored in and multiplied as; sums are in f32 always.
enum class Precision : uint8_t {
  kFp32,  ///< as the model says
  kTf32,  ///< stored as f32; products of a GPU's tensor cores may round their operands to 11 significant bits
  kFp16,  ///< f16 wherever operators take it
  kBf16,  ///< bf16 wherever operators take it
};
/// `fp32`, `tf32`, `fp16`, `bf16`.
std::string_view name_of(Precision precision);
/// The type that an f32 network is lowered to; undefined when it stays f32.
DType low_type(Precision precision);

/// Everything that changes the result of compiling, and four callbacks that do not.
struct CompileOptions {
  std::vector<std::string> targets;                      ///< names or texts of descriptions; none: this machine
  std::string device = "cpu";                            ///< what runs it here: cpu, cuda or cuda:N
  int threads = 0;                                       ///< 0: all cores of this machine
  Tuning tuning = Tuning::kFast;
  Precision precision = Precision::kFp32;
  bool splits_operands = true;  ///< fp32-units any: f32 products also on units that split their operands into parts
  bool interpret = false;                                ///< neither generated kernels nor libraries
  bool choices_only = false;                             ///< no code: for looking at choices, also of other machines
  bool source_only = false;                              ///< kernels are generated but not compiled: nothing can run
  std::map<std::string, Graph::Range, std::less<>> dims; ///< by the model's symbols; min == max fixes one
  std::vector<std::string> operators;                    ///< files or texts that define operators (OperatorLibrary)
  std::vector<std::string> overridable;                  ///< inputs of an ONNX model whose initializers do not count
  std::vector<std::string> converters;                   ///< shared libraries with rows for a front end's operators
  std::string signature;                                 ///< of a SavedModel; empty: its default
  std::vector<std::string> tags, outputs;                ///< of a SavedModel's graph; what a GraphDef is asked for
  std::string params;                                    ///< of a symbol of MXNet: the file; empty: the one beside it
  std::string record;                                    ///< a file with choices made before: a plan, or a text
  InputShapes shapes, min_shapes, opt_shapes, max_shapes;
  std::vector<bool> any_order;  ///< by output: those that may be given with their axes as kernels store them
  std::vector<std::string> disabled;
  Metadata metadata;  ///< pairs for the plan, which change nothing about the engine
  Progress progress;
  /// Looks at a model that was imported, with the caller's shapes, before anything is done to it; may throw.
  std::function<void(const Graph&)> imported;
  KernelUse kernel_use;             ///< told of the code of all kernels
  std::function<bool()> cancelled;  ///< true stops with a `cancelled` error at the next step
  double deadline = 0;              ///< seconds after which compiling stops with a `cancelled` error; 0: never
};

/// Runs a part of compiling, whose own options have no deadline any more but are cancelled when it has passed. Throws
/// `cancelled` naming the stage that it was in.
void run_by_deadline(const CompileOptions& options, const std::function<void(const CompileOptions&)>& part);

/// One choice in its text form (see graft_option in graft_c.h).
struct OptionText {
  std::string_view key, value;
};

/// Sets a choice; throws invalid_argument naming the key, the value and what is allowed.
void set_option(CompileOptions& options, OptionText choice);

/// What can be left out: passes, rewrites of regions, libraries.
std::vector<std::string> names_to_disable();
/// Throws invalid_argument naming `where` unless each name is that of a pass or a library, which can be left out.
void check_disabled(const std::vector<std::string>& names, const std::string& where);

/// The number of the GPU that `cuda` or `cuda:N` names, -1 for `cpu`; throws invalid_argument for other texts.
int gpu_of(std::string_view device);

/// Words between separators; empty ones are kept.
std::vector<std::string_view> split(std::string_view text, char separator);

/// Tells the callbacks about a step, and throws `cancelled` when the caller wants to stop.
void report(const CompileOptions& options, std::string_view stage, std::string_view step, int done = 0, int total = 0);

}  // namespace graft
