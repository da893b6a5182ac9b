// SPDX-License-Identifier: Apache-2.0
#include "passes/precision_rules.h"

#include <map>
#include <mutex>
#include <optional>
#include <string_view>

namespace graft::passes {
namespace {

/// What precision_rules.inc says; no rule where the definition says it.
struct Statement {
  std::optional<PrecisionRule> rule;
  uint32_t kept = 0;
};

const Statement* find_statement(std::string_view op) {
  static const std::map<std::string_view, Statement> rows = {
#define GRAFT_PRECISION(rule, op, kept) {#op, {PrecisionRule::rule, kept}},
#define GRAFT_PRECISION_KEEPS(op, kept) {#op, {std::nullopt, kept}},
#include "passes/precision_rules.inc"
  };
  const auto row = rows.find(op);
  return row == rows.end() ? nullptr : &row->second;
}

/// The rows of operators, each found out when it is asked for.
class Rows {
 public:
  Rows() {
    for (const OpDef& op : all_ops()) rows_[op.name].op = &op;
  }

  const PrecisionRow* find(std::string_view op) {
    const auto found = rows_.find(op);
    if (found == rows_.end()) return nullptr;
    Row& row = found->second;
    std::call_once(row.once, [&] {
      const Statement* statement = find_statement(op);
      if (statement) row.is.kept = statement->kept;
      row.is.rule = statement && statement->rule ? *statement->rule : derived_rule(*row.op);
    });
    return &row.is;
  }

 private:
  struct Row {
    const OpDef* op = nullptr;
    std::once_flag once;
    PrecisionRow is;
  };
  std::map<std::string_view, Row> rows_;
};

}  // namespace

const PrecisionRow* find_precision_row(std::string_view op) {
  static Rows rows;
  return rows.find(op);
}

const PrecisionRow* find_precision_row(const Node& node) {
  if (!node.domain.empty() && node.domain != "graft" && !node.domain.starts_with("ai.onnx.preview")) return nullptr;
  return find_precision_row(node.op);
}

}  // namespace graft::passes
