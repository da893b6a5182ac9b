// SPDX-License-Identifier: Apache-2.0
// Where a network of f32 is cast so that part of it computes in f16 or bf16: the one place that decides, for every
// format. After the algorithm of MXNet's automatic mixed precision: nodes are visited in the order in which they run,
// each takes its operands in the type that its rule asks for, and a tensor is cast once to a type.
//
//   const amp::Decision decision = amp::decide(graph, rules, {.low = DType::kFloat16});
//   // decision.readings[node][input] says what the input reads now
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "amp/graph.h"
#include "amp/rules.h"

namespace graft::amp {

struct Options {
  DType low = DType::kFloat16;  ///< or kBFloat16
  /// Parameters that are read in the low type alone are converted now; false: cast where they are read, as others are.
  bool convert_parameters = true;
  /// Why the contents of a parameter do not fit the low type, or nothing; such a parameter counts as f32.
  std::function<std::string(int value)> why_not = {};
};

/// A cast to insert.
struct Cast {
  int value = 0;
  DType type = DType::kFloat32;
};

/// What an input reads: a value as it is, or the result of a cast.
struct Reading {
  int value = 0;
  int cast = -1;  ///< index into Decision::casts; -1: the value as it is
};

struct Decision {
  std::vector<Cast> casts;                      ///< each value and type once, in the order of their first use
  std::vector<std::vector<Reading>> readings;   ///< by node and input
  /// By node: the inputs that one multicast, of the node's own, brings to their widest type; empty for most.
  std::vector<std::vector<int>> multicasts;
  std::vector<Reading> outputs;                 ///< by output of the graph, in the type that it had
  std::vector<DType> types;                     ///< by value; of a parameter: what it is converted to
};

/// Decides. The types of two operands of one operation are equal afterwards, as far as they are known; deciding on what
/// came out gives no further cast. Time is near-linear in nodes and uses.
Decision decide(const Graph& graph, const Rules& rules, const Options& options);

}  // namespace graft::amp
