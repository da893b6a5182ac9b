// SPDX-License-Identifier: Apache-2.0
#include "import/mxnet/precision_lists.h"

#include <map>

namespace graft::mxnet {
namespace {

using enum ResultType;
using enum amp::Rule;

constexpr uint64_t kStatistics = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4;
constexpr uint64_t kAll = ~uint64_t{0};

struct PrecisionRow {
  amp::Rule half, brain;
};

const std::map<std::string_view, PrecisionRow>& rules() {
  static const std::map<std::string_view, PrecisionRow> table = {
#define GRAFT_MXNET_PRECISION(op, half, brain) {#op, {half, brain}},
#include "import/mxnet/precision_lists.inc"
  };
  return table;
}

const std::map<std::string_view, std::string_view>& aliases() {
  static const std::map<std::string_view, std::string_view> table = {
#define GRAFT_MXNET_ALIAS(alias, op) {#alias, #op},
#include "import/mxnet/precision_lists.inc"
  };
  return table;
}

const std::map<std::string_view, OperandRow>& operands() {
  static const std::map<std::string_view, OperandRow> table = {
#define GRAFT_MXNET_OPERANDS(op, kept, parameters, auxiliary, result) {#op, {kept, parameters, auxiliary, result}},
#include "import/mxnet/precision_lists.inc"
  };
  return table;
}

}  // namespace

std::string canonical_operator(std::string_view op) {
  constexpr std::string_view kSparse = "_sparse_";
  if (op.starts_with(kSparse) && !rules().contains(op)) op.remove_prefix(kSparse.size());
  const auto alias = aliases().find(op);
  return std::string(alias == aliases().end() ? op : alias->second);
}

OperandRow operand_row(std::string_view op) {
  const auto row = operands().find(canonical_operator(op));
  return row == operands().end() ? OperandRow{} : row->second;
}

amp::DefaultLists default_lists(DType low) {
  amp::DefaultLists lists;
  lists.rule = [low](std::string_view op) -> std::optional<amp::Rule> {
    const auto row = rules().find(op);
    if (row == rules().end()) return std::nullopt;
    return low == DType::kBFloat16 ? row->second.brain : row->second.half;
  };
  lists.conditions = {{"Activation", "act_type", {"softrelu"}}, {"LeakyReLU", "act_type", {"elu", "selu"}}};
  lists.canonical = canonical_operator;
  for (const auto& [name, row] : rules()) lists.names.emplace_back(name);
  return lists;
}

}  // namespace graft::mxnet
