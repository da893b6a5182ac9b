// SPDX-License-Identifier: Apache-2.0
// The engine: everything a run needs, as data. Written by plan/, stored by engine/plan_file, run by runtime/.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/control_flow.h"
#include "base/derived_sizes.h"
#include "base/tensor_data.h"
#include "graph/graph.h"

namespace graft {

/// Where the bytes of a tensor come from.
enum class Storage : uint8_t {
  kInput,     ///< the caller's buffer number `index`
  kOutput,    ///< the caller's output buffer number `index`
  kConstant,  ///< Engine::constants[index]
  kArena,     ///< the session's arena; the memory plan gives the offset for each signature
  kAlias,     ///< the memory of tensor number `index`
};

struct EngineTensor {
  std::string name;
  DType type = DType::kUndefined;
  Shape shape;  ///< as the model sees it
  Size bytes;   ///< in memory (packed layouts differ from the shape)
  /// Empty for numbers. Elements are u64 handles of a session's values: `str` for strings, else the type of what the
  /// one element stands for (graph/dynamic_type.h).
  std::string handles = {};
  Storage storage = Storage::kArena;
  int index = -1;
  int first_step = -1, last_step = -1;  ///< kArena: written first, read last (aliases included)
};

/// A symbol that takes the value of an element (of a float: its whole part) when the run reaches a step.
struct SymbolRead {
  std::string symbol;
  int tensor = -1;
  int64_t element = 0;
};

/// A condition on symbols, checked before a step: `value` is zero, or at least zero.
struct RunCheck {
  Size value;
  bool at_least_zero = false;
  std::string message;
};

/// How a step does its work.
enum class StepKind : uint8_t { kNone, kKernel, kLibrary, kInterpreter, kControl, kHost };
std::string_view name_of(StepKind kind);

/// Why another way of doing a step was not taken.
struct Candidate {
  std::string name;         ///< "generated contract m=56 ...", "onednn"
  double milliseconds = 0;  ///< measured or estimated; 0 when it did not run
  std::string reason;       ///< why it lost or could not be
};

struct Engine;

struct EngineStep {
  std::string name;                ///< the model's node name
  std::vector<std::string> nodes;  ///< all node names fused into the step
  std::vector<std::string> operators;
  StepKind kind = StepKind::kNone;
  int kernel = -1;           ///< kKernel: index into Engine::kernels
  std::string library;       ///< kLibrary: "onednn"; the call follows from `region` and `schedule`
  std::string schedule;      ///< the schedule record's text
  std::vector<int> tensors;  ///< arguments: region inputs, then outputs, then `count`
  int input_count = 0;       ///< how many of `tensors` are read
  std::vector<int64_t> offsets;  ///< kKernel, by input: bytes before the part of it that the kernel reads; or empty
  std::vector<SymbolRead> reads;
  std::vector<RunCheck> checks;
  std::string count_symbol;  ///< takes the value of the last tensor after the step
  std::vector<int>
      reference_inputs;     ///< kept for validation only: the inputs row-major, where `tensors` has packed ones
  std::string region;       ///< text of the region as it was fused, for inspection, validation and libraries
  std::vector<std::shared_ptr<const Engine>> bodies;  ///< kControl
  ControlFlow control;                                ///< kControl; the sizes that are found, also of kHost
  /// kHost: the operator and its attributes; inputs and outputs are positions among what is read and written, or -1.
  std::shared_ptr<const Node> host;
  Size operations, bytes;   ///< arithmetic operations and bytes moved: the roofline of the step
  double milliseconds = 0;  ///< of the chosen way when candidates were measured
  std::vector<Candidate> candidates;
};

/// A generated kernel of the engine.
struct EngineKernel {
  std::string name;                ///< symbol in its object
  int object = -1;                 ///< index into Engine::objects
  std::vector<std::string> sizes;  ///< symbols passed by value, in order
  Size grid;                       ///< launch size
  Size scratch;                    ///< bytes for one thread
  std::string program;             ///< the tile program's text
};

struct SymbolRange {
  int64_t min = 0, opt = 1, max = 0;  ///< max 0: unbounded
};

/// A derived size and the step before which it is known: after that step's reads, and after the steps before it.
struct EngineSize {
  DerivedSize size;
  int before_step = 0;
};

/// The same network, with the same inputs and outputs, compiled for other optima of its dimensions.
struct EngineVariant {
  Bindings optima;                       ///< of the dimensions that have several
  std::shared_ptr<const Engine> engine;  ///< null: the engine that this is a variant of
};

/// A compiled network. Immutable after building; shared by any number of sessions and threads.
struct Engine {
  std::string name;
  std::string target;  ///< text of the target description
  int threads = 1;
  std::vector<EngineTensor> tensors;
  std::vector<int> inputs, outputs;  ///< tensors
  std::vector<TensorData> constants;
  std::vector<EngineStep> steps;
  std::vector<EngineKernel> kernels;
  std::vector<std::vector<std::byte>> objects;  ///< relocatable code, one per compilation unit
  std::map<std::string, SymbolRange, std::less<>> symbols;
  std::vector<EngineVariant> variants;  ///< one for each combination of optima; none where no dimension has several
  Bindings typical;                 ///< the sizes that regions were judged at
  std::vector<EngineSize> derived;  ///< by the step, then in the order in which they depend on each other
  std::vector<std::pair<std::string, std::string>> options;  ///< everything that changed the result of compiling
  bool has_computed_symbols = false;                         ///< some sizes are known only while running
};

/// The number of the variant that is tightest for sizes of its dimensions, those that are missing being small: in each
/// dimension the smallest optimum that is not below the size, or else the largest. 0 where there are no variants.
size_t tightest_variant(const Engine& engine, const Bindings& sizes);

}  // namespace graft
