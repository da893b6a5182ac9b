// SPDX-License-Identifier: Apache-2.0
// Patterns of nodes: a recognition pass states what it looks for and gets the values it named.
//
//   const Pattern half_of = node("Mul", {any("x"), number(0.5)});
//   if (const auto match = matcher.find(half_of, output)) use((*match)["x"]);
//
// Operands of commutative operators are tried in both orders. A name that occurs twice must stand for one value. Every
// matched node but the root may be read by matched nodes only, so that replacing the root leaves it dead.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace graft::passes {

/// What a value may be.
struct Pattern {
  enum class Kind : uint8_t { kAny, kConstant, kScalar, kNumber, kNode, kEither };
  Kind kind = Kind::kAny;
  std::string name{};                ///< the value is found under this name; empty: nobody asks
  std::string op{};                  ///< kNode: of domain ai.onnx
  double number = 0;                 ///< kNumber
  std::vector<Pattern> arguments{};  ///< kNode: inputs, left-out trailing ones omitted; kEither: alternatives, in order
};

/// Any value.
Pattern any(std::string_view name);
/// Any constant.
Pattern constant(std::string_view name);
/// A constant with exactly one element.
Pattern scalar(std::string_view name);
/// A constant with one element of this value, up to the rounding of its type.
Pattern number(double value);
/// The first output of a node of operator `op`, all of its inputs stated.
Pattern node(std::string_view op, std::vector<Pattern> inputs, std::string_view name = "");
/// The first alternative that matches.
Pattern either(std::vector<Pattern> alternatives);
/// `x * factor`, or `x / (1 / factor)`.
Pattern scaled(const Pattern& x, double factor);

/// A match: the named values and the nodes they came from.
struct Match {
  std::map<std::string, ValueId, std::less<>> values;
  std::vector<int> nodes;  ///< the root first

  ValueId operator[](std::string_view name) const;
  bool has(std::string_view name) const { return values.find(name) != values.end(); }
};

/// Matches patterns against one state of a graph. Replacing the root of a match in place keeps it usable: what it then
/// no longer sees right it refuses.
class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph), consumers_(graph.consumers()) {}

  std::optional<Match> find(const Pattern& pattern, ValueId root) const;
  /// The node that alone reads the value, when the value is no output of the graph; -1 otherwise.
  int only_consumer(ValueId value) const;
  /// Whether nothing outside `nodes` reads what they compute, the outputs of `root` aside.
  bool is_closed(const std::vector<int>& nodes, int root) const;
  /// The nodes that read the value, each once.
  const std::vector<int>& consumers(ValueId value) const { return consumers_[value]; }
  /// Whether the value was added after this matcher looked at the graph.
  bool is_new(ValueId value) const { return value >= static_cast<ValueId>(consumers_.size()); }

 private:
  struct Goal {
    const Pattern* pattern;
    ValueId value;
  };
  bool solve(std::vector<Goal> goals, Match& match) const;
  bool solve_node(const Goal& goal, const std::vector<Goal>& rest, Match& match) const;

  const Graph& graph_;
  std::vector<std::vector<int>> consumers_;
};

}  // namespace graft::passes
