// SPDX-License-Identifier: Apache-2.0
// A framework's graph as the framework spells it: operators by its own names, arguments by its own signatures.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/size.h"
#include "base/tensor_data.h"

namespace graft::frontend {

/// A value of the graph as an argument.
struct Reference {
  int value = 0;
};

struct Argument;
using Arguments = std::vector<Argument>;

/// What an operator is given: nothing (None), a value, a constant of the host language, or a list of these.
struct Argument {
  std::variant<std::monostate, Reference, int64_t, double, bool, std::string, DType, TensorData, Arguments> is;

  Argument();
  Argument(Reference given);
  Argument(int64_t given);
  Argument(int given) : Argument(int64_t{given}) {}
  Argument(double given);
  Argument(bool given);
  Argument(std::string given);
  Argument(DType given);
  Argument(TensorData given);
  Argument(Arguments given);
  template <class T>
  Argument(const T*) = delete;  // a text is a std::string; a pointer would be a bool
  Argument(const Argument&);
  Argument(Argument&&) noexcept;
  Argument& operator=(const Argument&);
  Argument& operator=(Argument&&) noexcept;
  ~Argument();
  bool is_none() const { return std::holds_alternative<std::monostate>(is); }
};

/// What flows between nodes. Where the framework tells no type or shape, conversion finds out what it can.
struct ForeignValue {
  std::string name;
  DType type = DType::kUndefined;
  std::optional<Shape> shape = {};
  TensorData constant = {};  ///< a parameter or constant; deferred where its bytes are fetched when they are needed
  bool tensor = true;        ///< false: a number, list or object of the host language, which no engine takes or gives
  bool list = false;         ///< of tensors, which a function is given
  std::optional<std::vector<Size>> content = {};  ///< elements of small integers that a function is given
};

struct ForeignGraph;

/// One operator.
struct ForeignNode {
  std::string op;    ///< `aten::conv2d`, `Conv2D`, `Convolution`
  std::string name;  ///< unique; what errors, reports and engines call it
  std::string scope = {};   ///< module path or name scope
  std::string source = {};  ///< the model's own line: `model.py:12: y = self.conv(x)`
  Arguments arguments = {};
  std::map<std::string, Argument, std::less<>> attributes = {};  ///< arguments by name
  std::vector<int> outputs = {};                                 ///< indices of values
  std::vector<int> after = {};                                   ///< nodes that have to run before
  /// Functions that it runs, by attribute.
  std::map<std::string, std::shared_ptr<const ForeignGraph>, std::less<>> bodies = {};
  std::string kept = {};  ///< why it stays with the framework, whatever rows there are; empty: they decide
};

/// Nodes in an order in which they can run.
struct ForeignGraph {
  std::string name;
  std::vector<ForeignValue> values;
  std::vector<ForeignNode> nodes;
  std::vector<int> inputs, outputs;  ///< of values
};

/// Calls visit(value) for each value that a node reads, also inside of lists.
template <class Visit>
void visit_references(const Argument& argument, const Visit& visit) {
  if (const auto* reference = std::get_if<Reference>(&argument.is)) visit(reference->value);
  if (const auto* list = std::get_if<Arguments>(&argument.is)) {
    for (const Argument& each : *list) visit_references(each, visit);
  }
}
template <class Visit>
void visit_references(const ForeignNode& node, const Visit& visit) {
  for (const Argument& argument : node.arguments) visit_references(argument, visit);
  for (const auto& [name, argument] : node.attributes) visit_references(argument, visit);
}

}  // namespace graft::frontend
