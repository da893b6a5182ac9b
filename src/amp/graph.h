// SPDX-License-Identifier: Apache-2.0
// Somebody's graph as the conversion to mixed precision sees it: operator names, attributes, types and uses. A format
// hands it in, and applies what is decided to its own form.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace graft::amp {

/// What flows between nodes.
struct Value {
  std::string name;
  DType type = DType::kUndefined;  ///< of a variable, when it is known; of results it is found out
  bool is_parameter = false;       ///< a variable whose contents belong to the model and may be converted with it
};

/// What a node is beside an operator with a rule.
enum class NodeKind : uint8_t {
  kOperator,
  kCast,       ///< floats to the type of its result, other types as they are: amp_cast
  kMulticast,  ///< floats to the widest of its inputs' types, each to an output of its own: amp_multicast
  kClosed,     ///< computes in types of its own: it gets and gives what it did before
};

struct Node {
  std::string op, name;
  std::map<std::string, std::string> attributes = {};
  std::vector<int> inputs = {}, outputs = {};  ///< indices of values
  uint64_t kept = 0;                           ///< bit i: input i stays as it is: an index, a condition, statistics
  std::vector<std::optional<DType>> results = {};  ///< by output: its type where it is not that of the operands
  NodeKind kind = NodeKind::kOperator;

  bool keeps(size_t input) const { return input < 64 && (kept >> input & 1) != 0; }
};

/// Nodes in an order in which they can run.
struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<int> outputs;  ///< of values
};

}  // namespace graft::amp
