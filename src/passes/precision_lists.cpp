// SPDX-License-Identifier: Apache-2.0
#include "passes/precision_lists.h"

#include "passes/precision_rules.h"

namespace graft::passes {
namespace {

std::optional<amp::Rule> rule_of(std::string_view op) {
  const PrecisionRow* row = find_precision_row(op);
  if (!row) return std::nullopt;
  switch (row->rule) {
    case PrecisionRule::kLow: return amp::Rule::kLow;
    case PrecisionRule::kFollow: return amp::Rule::kFollow;
    case PrecisionRule::kWide: return amp::Rule::kWide;
  }
  return std::nullopt;
}

}  // namespace

amp::DefaultLists default_lists() {
  amp::DefaultLists lists;
  lists.rule = rule_of;
  // In memory they round at each step.
  lists.conditions = {{"ScatterElements", "reduction", {"add", "mul"}}, {"ScatterND", "reduction", {"add", "mul"}}};
  lists.canonical = [](std::string_view op) { return std::string(op); };
  lists.otherwise = amp::Rule::kWide;
  for (const OpDef& op : all_ops()) lists.names.emplace_back(op.name);
  return lists;
}

}  // namespace graft::passes
