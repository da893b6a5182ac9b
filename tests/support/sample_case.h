// SPDX-License-Identifier: Apache-2.0
// A sample of an operator as a graph of one node with concrete inputs, and as text for the reference.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "graph/op_def.h"

namespace graft {

/// One sample, with its random inputs drawn (always the same ones).
struct SampleCase {
  const OpDef* op = nullptr;
  Sample sample;
  std::vector<TensorData> inputs;  ///< an empty tensor for an input left out

  /// `Softmax.last_axis`
  std::string name() const { return std::string(op->name) + "." + sample.name; }
};

/// How googletest prints a case.
void PrintTo(const SampleCase& c, std::ostream* stream);

/// What the graph of a sample leaves to the run.
enum class Openness {
  kNothing,   ///< every input is a constant
  kContents,  ///< inputs are run-time tensors of constant shape, but for those the sample calls constant
  kSizes,     ///< as kContents, and sizes other than 0 and 1 are symbols of their own (lists of integers keep theirs)
};

/// All samples of all operators, in the order of all_ops.inc.
std::vector<SampleCase> all_sample_cases();

/// A graph of one node. Its outputs have neither types nor shapes yet.
Graph make_graph(const SampleCase& c, Openness openness);

/// The case for reference.py: operator, attributes, inputs with their bytes in hexadecimal.
nlohmann::json to_json(const SampleCase& c);
/// A tensor written as {"type", "shape", "bytes"}.
TensorData tensor_from_json(const nlohmann::json& text);

}  // namespace graft
