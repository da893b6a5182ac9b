// SPDX-License-Identifier: Apache-2.0
#include "amp/rules.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/spelling.h"

namespace graft::amp {

Rules::Rules(DefaultLists defaults, const Lists& lists, const Graph& graph) : defaults_(std::move(defaults)) {
  std::set<std::string> names;
  for (const Node& node : graph.nodes) {
    operators_.insert(defaults_.canonical(node.op));
    names.insert(node.name);
  }
  for (const Value& value : graph.values) names.insert(value.name);
  if (lists.low) take(*lists.low, Rule::kLow, "target_dtype_ops");
  if (lists.wide) take(*lists.wide, Rule::kWide, "fp32_ops");
  if (lists.widest) take(*lists.widest, Rule::kWidest, "widest_dtype_ops");
  conditions_ = defaults_.conditions;
  if (lists.conditional) take_conditions(*lists.conditional);
  const std::vector<std::string> known(names.begin(), names.end());
  for (const std::string& name : lists.excluded) {
    GRAFT_USER_CHECK(names.contains(name), kInvalidArgument,
                     fmt::format("the model has no node '{}'{}", name, did_you_mean(name, known)),
                     "excluded_sym_names");
    excluded_.insert(name);
  }
}

void Rules::check_known(const std::string& op, const std::string& title) const {
  if (defaults_.rule(op) || operators_.contains(op)) return;
  std::vector<std::string> names = defaults_.names;
  names.insert(names.end(), operators_.begin(), operators_.end());
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("there is no operator '{}'{}; an operator of an extension has to be in the model", op,
                          did_you_mean(op, names)),
              title);
}

void Rules::take(const std::vector<std::string>& list, Rule rule, const std::string& title) {
  replaced_.insert(rule);
  for (const std::string& each : list) {
    const std::string op = defaults_.canonical(each);
    check_known(op, title);
    const auto [known, is_new] = listed_.try_emplace(op, Listed{rule, title});
    GRAFT_USER_CHECK(is_new || known->second.rule == rule, kInvalidArgument,
                     fmt::format("'{}' is in {} and in {}: take it out of one", each, known->second.title, title),
                     title);
  }
}

void Rules::take_conditions(const std::vector<Condition>& list) {
  const std::string title = "conditional_fp32_ops";
  conditions_.clear();
  own_conditions_ = true;
  for (const Condition& each : list) {
    Condition condition = each;
    condition.op = defaults_.canonical(each.op);
    check_known(condition.op, title);
    const auto listed = listed_.find(condition.op);
    GRAFT_USER_CHECK(listed == listed_.end() || listed->second.rule != Rule::kWide, kInvalidArgument,
                     fmt::format("'{}' is in fp32_ops, too, and so f32 whatever its '{}': take it out of one", each.op,
                                 each.attribute),
                     title);
    conditions_.push_back(std::move(condition));
  }
}

Rule Rules::of(const Node& node) const {
  if (node.kind == NodeKind::kClosed || excludes(node.name)) return Rule::kWide;
  const std::string op = defaults_.canonical(node.op);
  const auto listed = listed_.find(op);
  if (own_conditions_ || listed == listed_.end()) {
    for (const Condition& condition : conditions_) {
      if (condition.op != op) continue;
      const auto given = node.attributes.find(condition.attribute);
      if (given == node.attributes.end()) continue;
      if (std::ranges::find(condition.values, given->second) != condition.values.end()) return Rule::kWide;
    }
  }
  if (listed != listed_.end()) return listed->second.rule;
  const Rule rule = defaults_.rule(op).value_or(defaults_.otherwise);
  return replaced_.contains(rule) ? Rule::kFollow : rule;
}

}  // namespace graft::amp
