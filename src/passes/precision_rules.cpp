// SPDX-License-Identifier: Apache-2.0
#include "passes/precision_rules.h"

#include <map>
#include <string_view>

namespace graft::passes {
namespace {

using Table = std::map<std::string_view, PrecisionRow>;

const Table& table() {
  static const Table rows = {
#define GRAFT_PRECISION(rule, op, kept) {#op, {PrecisionRule::rule, kept}},
#include "passes/precision_rules.inc"
#undef GRAFT_PRECISION
  };
  return rows;
}

}  // namespace

const PrecisionRow* find_precision_row(const Node& node) {
  if (!node.domain.empty() && node.domain != "graft" && !node.domain.starts_with("ai.onnx.preview")) return nullptr;
  const auto row = table().find(node.op);
  return row == table().end() ? nullptr : &row->second;
}

}  // namespace graft::passes
