// SPDX-License-Identifier: Apache-2.0
// What a plugin is made of, taken out of the engines that were built for its targets: no text yet.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/size.h"
#include "base/tensor_data.h"
#include "engine/engine.h"
#include "target/target.h"

namespace graft::plugin {

/// A tensor that is handed in or given out.
struct Tensor {
  std::string name;
  DType type = DType::kUndefined;
  Shape shape;
};

/// A size of a run: an axis of an input, or computed from those before it.
struct Dimension {
  std::string symbol, identifier;  ///< the engine's name, and that of the member in C++
  int input = -1, axis = 0;        ///< where it is read; -1: it is `value`
  Size value;
  SymbolRange range;
  int counted = -1;  ///< it is known only after a run, which gives it as this output; `value` is the most it can be
};

/// An axis of an output whose extent is known only after a run.
struct CountedAxis {
  int output = 0, axis = 0;
  int count = 0;  ///< the output that tells the extent
};

/// What an argument of a kernel is.
enum class Place : uint8_t { kInput, kOutput, kWorkspace, kConstant };

struct Argument {
  Place place = Place::kInput;
  int index = 0;       ///< of the input, output, slot of the workspace, or constant
  int64_t offset = 0;  ///< bytes before the part of it that is meant
  bool operator==(const Argument&) const = default;
};

/// A launch of a kernel.
struct Launch {
  std::string comment;  ///< what it computes
  int kernel = 0;
  Size grid;
  std::vector<Argument> arguments;
};

struct Kernel {
  std::string name;
  int threads = 0;
  int64_t shared_bytes = 0;
  int64_t blocks_per_multiprocessor = 0;  ///< its blocks go on to further points of the grid; 0: a block for each
  std::vector<std::string> sizes;         ///< engine's names of what it takes by value
  std::map<std::string, Argument> stored; ///< of `sizes`, those whose address it takes instead
};

/// Memory between kernels that tensors share which do not live at the same time.
struct Slot {
  std::vector<Size> bytes;  ///< the largest counts
};

/// An output that no kernel writes.
struct Copy {
  int output = 0;
  Argument from;
  Size bytes;
};

/// The kernels of one target.
struct Variant {
  Target target;
  std::string prelude, source;  ///< CUDA C++: device functions, and the kernels that use them
  std::string ptx, cubin;       ///< empty where they were not made
  std::vector<Kernel> kernels;
  std::vector<Launch> launches;
  std::vector<Slot> slots;
  std::vector<Copy> copies;
  std::vector<TensorData> constants;
  std::string choices;  ///< which way each region is done, as a record (engine/record.h)
  bool measured = false;    ///< candidates for a kernel, where there were several
  double milliseconds = 0;  ///< of a run at usual sizes, where that is so for all kernels
};

struct Definition {
  std::string name;                ///< the operator of the plugin, and a name in C++
  std::vector<std::string> nodes;  ///< of the model, that it does
  std::vector<std::string> operators;  ///< of those nodes
  std::vector<Tensor> inputs, outputs;  ///< outputs: those of the part, then its counts, int32 each
  std::vector<CountedAxis> counted;
  std::vector<Dimension> dimensions;
  std::vector<RunCheck> checks;
  std::vector<Variant> variants;
};

/// The name of the architecture as a part of names of files and functions: sm_90a.
const std::string& architecture_of(const Variant& variant);

/// Takes the definition out of an engine, without variants and what the model calls it. Throws unsupported naming the
/// tensor where a size is known only while running and is no count of a step's results, or is no axis of an input.
Definition describe(const std::string& name, const Engine& engine);

/// Adds what an engine of the same part runs on its target, with the kernels' CUDA C++, and PTX and cubin where NVRTC
/// is there, they are of use and `compiled` asks for them. Throws unsupported naming the node that no kernel could be
/// generated for, and why.
void add_variant(Definition& definition, const Engine& engine, bool compiled = true);

}  // namespace graft::plugin
