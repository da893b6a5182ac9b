// SPDX-License-Identifier: Apache-2.0
// ONNX files (opsets 1 to 28; fully from 7 on) as graphs of opset kOpset.
//
// - Initializers and Constant nodes become constants; inputs that have an initializer are constants as well, but for
//   those that the caller wants to give in each run.
// - Operators that the caller defines carry their definition (graph/custom_operator.h).
// - Functions of the model and of the caller are inlined; their nodes are named `CALL/NODE`.
// - A subgraph (body of If, Loop, Scan ...) is a closed Graph of its own. Constants of the graphs around it that it
//   uses are repeated in it (sharing their bytes); every other outer value it uses is an extra input, named like the
//   outer value, after the body's own inputs. The node's `inputs` end with the captured values of each graph attribute
//   in the order of the attributes' names, and its attribute `captures` (ints) says how many belong to each. So an
//   operator has `inputs.size() - sum(captures)` inputs of its own.
// - A TypeProto attribute becomes its text: `f32[2, n]`, `seq(i64)`, `optional(seq(f32))`, `map(i64, f32)`.
// - Named dimensions become symbols of the same name, with characters outside [A-Za-z0-9_] replaced by `_`; an unknown
//   dimension gets the symbol INPUT_AXIS. An expression of dimensions that inputs have alone on an axis
//   (`past_sequence_length + sequence_length`) becomes that size.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/size.h"
#include "graph/graph.h"
#include "import/operator_library.h"

namespace graft {

/// What the caller knows better than the file.
struct ImportOptions {
  std::map<std::string, Shape, std::less<>> input_shapes;  ///< by input name; ranks must agree
  std::map<std::string, Size, std::less<>> symbols;        ///< replaces named dimensions: `N` -> `batch`, `N` -> 8
  std::vector<std::string> overridable = {};  ///< inputs that have an initializer, and stay inputs
  OperatorLibrary operators = {};                          ///< what it defines goes before the model's own functions
};

/// Reads a model file. Throws invalid_model naming node, tensor or section and the remedy for a malformed file of any
/// bytes, unsupported for what Graft cannot represent, device errors when a file cannot be read, invalid_argument for
/// options that do not fit the model.
Graph import_onnx(const std::string& path, const ImportOptions& options = {});

/// The same from memory. External data is looked for below `directory`; with an empty one it is refused.
Graph import_onnx_bytes(std::span<const std::byte> bytes, const std::string& directory,
                        const ImportOptions& options = {});

/// A function of an ONNX file, which is what a node of its domain and name means.
struct OnnxFunction {
  std::string domain, name, doc;
};
/// Those of a file of OperatorLibrary::functions; throws invalid_argument naming it where it has none.
std::vector<OnnxFunction> functions_of(const MappedFile& file);

}  // namespace graft
