// SPDX-License-Identifier: Apache-2.0
#include "export/onnx/opsets.h"

#include <algorithm>
#include <map>

namespace graft {
namespace {

const std::map<std::string_view, int64_t>& bfloat16_rows() {
  static const std::map<std::string_view, int64_t> rows = {
#define GRAFT_BFLOAT16(opset, op) {#op, opset},
#include "export/onnx/bfloat16_opsets.inc"
#undef GRAFT_BFLOAT16
  };
  return rows;
}

/// What an operator was given after its oldest opset.
struct History {
  int64_t oldest = 0;
  std::map<std::string_view, int64_t> attributes;
  std::map<DType, int64_t> types;
};

std::map<std::string_view, History> read_rows() {
  std::map<std::string_view, History> rows;
#define GRAFT_OLDEST_OPSET(opset, op) rows[#op].oldest = opset;
#define GRAFT_OPSET_OF_ATTRIBUTE(opset, op, attribute) rows[#op].attributes[#attribute] = opset;
#define GRAFT_OPSET_OF_TYPE(opset, op, type) rows[#op].types[DType::k##type] = opset;
#include "export/onnx/oldest_opsets.inc"
#undef GRAFT_OLDEST_OPSET
#undef GRAFT_OPSET_OF_ATTRIBUTE
#undef GRAFT_OPSET_OF_TYPE
  return rows;
}

}  // namespace

bool takes_bfloat16(std::string_view op, int64_t opset) {
  const auto row = bfloat16_rows().find(op);
  return row != bfloat16_rows().end() && row->second <= opset;
}

int64_t oldest_opset(const Graph& graph, const Node& node, int64_t defined) {
  static const std::map<std::string_view, History> rows = read_rows();
  const auto row = rows.find(node.op);
  if (row == rows.end()) return defined;
  const History& history = row->second;
  int64_t opset = history.oldest;
  for (const auto& [name, value] : node.attributes) {
    if (const auto later = history.attributes.find(name); later != history.attributes.end()) {
      opset = std::max(opset, later->second);
    }
  }
  const auto note = [&](ValueId value) {
    if (value == kNoValue) return;
    const DType type = graph.value(value).type;
    if (const auto later = history.types.find(type); later != history.types.end()) {
      opset = std::max(opset, later->second);
    }
    if (type != DType::kBFloat16) return;
    const auto bfloat16 = bfloat16_rows().find(node.op);
    opset = std::max(opset, bfloat16 == bfloat16_rows().end() ? defined : bfloat16->second);
  };
  for (const ValueId input : node.inputs) note(input);
  for (const ValueId output : node.outputs) note(output);
  return opset;
}

}  // namespace graft
