// SPDX-License-Identifier: Apache-2.0
// Which type each operator of a network computes in: a format's default lists, and a user's, which go first.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "amp/graph.h"

namespace graft::amp {

/// What a node does in a network of mixed precision.
enum class Rule : uint8_t {
  kLow,     ///< its inputs are cast to the low type
  kFollow,  ///< it takes what its producers give; low where all operands are
  kWidest,  ///< several operands of one type, the widest of theirs
  kWide,    ///< f32
};

/// An operator that is f32 where an attribute has one of some values.
struct Condition {
  std::string op, attribute;
  std::vector<std::string> values;
};

/// A user's lists. One that is given replaces the default one of its kind, and what it names is on no other default
/// list.
struct Lists {
  std::optional<std::vector<std::string>> low, wide, widest;
  std::optional<std::vector<Condition>> conditional;
  std::vector<std::string> excluded;  ///< names of nodes that stay f32, and of parameters that are not converted
};

/// A format's own lists for a low type.
struct DefaultLists {
  std::function<std::optional<Rule>(std::string_view op)> rule;
  std::vector<Condition> conditions;
  /// The name that the tables have for another spelling of an operator; the name itself where there is none.
  std::function<std::string(std::string_view op)> canonical;
  std::vector<std::string> names;  ///< every operator that has a rule
  Rule otherwise = Rule::kFollow;  ///< of an operator that has none
};

/// The rule of each node of a graph.
class Rules {
 public:
  /// Throws invalid_argument naming the entry for an operator or a name that neither the tables nor the graph has, and
  /// for entries that contradict each other.
  Rules(DefaultLists defaults, const Lists& lists, const Graph& graph);

  Rule of(const Node& node) const;
  bool excludes(const std::string& name) const { return excluded_.contains(name); }

 private:
  void take(const std::vector<std::string>& list, Rule rule, const std::string& title);
  void take_conditions(const std::vector<Condition>& list);
  void check_known(const std::string& op, const std::string& title) const;

  DefaultLists defaults_;
  std::set<std::string> operators_;  ///< of the graph
  struct Listed {
    Rule rule;
    std::string title;
  };
  std::map<std::string, Listed> listed_;
  std::set<Rule> replaced_;
  std::vector<Condition> conditions_;
  bool own_conditions_ = false;
  std::set<std::string> excluded_;
};

}  // namespace graft::amp
