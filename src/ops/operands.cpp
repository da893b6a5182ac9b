// SPDX-License-Identifier: Apache-2.0
// Whether a node has the inputs and outputs that its operator takes: how many, and of which element types.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/bodies.h"
#include "graph/custom_operator.h"
#include "graph/host_operator.h"
#include "graph/op_def.h"

namespace graft {
namespace {

constexpr uint32_t bit(DType type) { return uint32_t{1} << static_cast<int>(type); }

constexpr uint32_t kFloats =
    bit(DType::kFloat16) | bit(DType::kFloat32) | bit(DType::kFloat64) | bit(DType::kBFloat16);
constexpr uint32_t kIntegers = bit(DType::kInt8) | bit(DType::kInt16) | bit(DType::kInt32) | bit(DType::kInt64) |
                               bit(DType::kUint8) | bit(DType::kUint16) | bit(DType::kUint32) | bit(DType::kUint64);
constexpr uint32_t kNarrow = bit(DType::kFloat8E4M3FN) | bit(DType::kFloat8E4M3FNUZ) | bit(DType::kFloat8E5M2) |
                             bit(DType::kFloat8E5M2FNUZ) | bit(DType::kFloat8E8M0) | bit(DType::kFloat4E2M1) |
                             bit(DType::kUint4) | bit(DType::kInt4) | bit(DType::kUint2) | bit(DType::kInt2);

/// What one input may be.
struct OperandType {
  uint32_t types = 0;     ///< the bits of the element types
  char letter = 0;        ///< inputs of one letter agree; 0 for an input of its own
  bool mixes = false;     ///< inputs that agree may be different floats that compute in f32
  std::string_view text;  ///< as the table says it
};

uint32_t types_of_word(std::string_view word) {
  if (word == "float") return kFloats;
  if (word == "integer") return kIntegers;
  if (word == "number") return kFloats | kIntegers;
  if (word == "narrow") return kNarrow;
  if (word == "any") return ~uint32_t{0};
  const auto type = parse_dtype(word);
  GRAFT_CHECK(type.has_value(), fmt::format("operand_types.inc: '{}' is no type", word));
  return bit(*type);
}

/// The parts of a text between separators.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t end = 0; end != text.npos; text.remove_prefix(end == text.npos ? text.size() : end + 1)) {
    end = text.find(separator);
    parts.push_back(text.substr(0, end));
  }
  return parts;
}

/// `T:number T i32|i64`, `T~float T`: one type per input.
std::vector<OperandType> parse_operands(std::string_view text) {
  std::vector<OperandType> operands;
  for (std::string_view part : split(text, ' ')) {
    OperandType operand;
    if (part[0] >= 'A' && part[0] <= 'Z') {
      operand.letter = part[0];
      operand.mixes = part.size() > 1 && part[1] == '~';
      part.remove_prefix(std::min<size_t>(part.size(), 2));
    }
    const auto same = [&](const OperandType& other) { return operand.letter && other.letter == operand.letter; };
    const auto first = std::find_if(operands.begin(), operands.end(), same);
    if (first != operands.end()) {
      operand = *first;
    } else {
      operand.text = part;
      for (const std::string_view word : split(part, '|')) operand.types |= types_of_word(word);
    }
    operands.push_back(operand);
  }
  return operands;
}

const std::vector<OperandType>* find_operands(std::string_view op) {
  static const std::map<std::string_view, std::vector<OperandType>> table = {
#define GRAFT_OPERANDS(op, types) {#op, parse_operands(types)},
#include "ops/operand_types.inc"
#undef GRAFT_OPERANDS
  };
  const auto it = table.find(op);
  return it == table.end() ? nullptr : &it->second;
}

/// Why a node's inputs or outputs do not fit the operator's list, or nothing.
std::string count_fault(std::string_view what, const std::vector<std::string_view>& names,
                        const std::vector<ValueId>& values) {
  const bool variadic = !names.empty() && names.back().ends_with('*');
  if (!variadic && values.size() > names.size()) {
    return fmt::format("it has {} {}s, at most {} are allowed", values.size(), what, names.size());
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].ends_with('?')) continue;
    if (i >= values.size()) return fmt::format("its {} '{}' is missing", what, operand_name(names, i));
    const size_t last = names[i].ends_with('*') ? values.size() : i + 1;
    for (size_t k = i; k < last; ++k) {
      const bool left_out = values[k] == kNoValue && (what == "input" || !names[i].ends_with('*'));
      if (left_out) return fmt::format("its {} '{}' is missing", what, operand_name(names, k));
    }
  }
  return "";
}

/// `float (f16, f32, f64, bf16)`, or the types themselves.
std::string describe(const OperandType& operand) {
  std::string text;
  for (const std::string_view word : split(operand.text, '|')) {
    text += fmt::format("{}{}", text.empty() ? "" : " or ", word);
    if (word == "float") text += " (f16, f32, f64, bf16)";
    if (word == "integer") text += " (i8 to i64, u8 to u64)";
    if (word == "number") text += " (f16, f32, f64, bf16, i8 to i64, u8 to u64)";
    if (word == "narrow") text += " (f8, f4, i4, u4, i2, u2)";
  }
  return text;
}

std::string type_fault(const OpDef& op, const Node& node, const Graph& graph) {
  const std::vector<OperandType>* operands = find_operands(op.name);
  GRAFT_CHECK(operands, fmt::format("operand_types.inc has no row for {}", op.name));
  std::map<char, size_t> first;
  for (size_t i = 0; i < own_input_count(node); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    const OperandType& operand = (*operands)[std::min(i, operands->size() - 1)];
    const DType type = graph.value(node.inputs[i]).type;
    if (type == DType::kUndefined) continue;
    const std::string name = operand_name(op.inputs, i);
    if ((operand.types & bit(type)) == 0) {
      return fmt::format("its input '{}' is {}, but {} takes {} there; add a Cast or export the model again", name,
                         name_of(type), op.name, describe(operand));
    }
    if (!operand.letter) continue;
    const auto [before, fresh] = first.emplace(operand.letter, i);
    const DType other = graph.value(node.inputs[before->second]).type;
    const bool mixes = operand.mixes && is_float(type) && is_float(other);
    if (!fresh && (mixes ? compute_type(other) != compute_type(type) : other != type)) {
      return fmt::format("its inputs '{}' and '{}' have different types, {} and {}; add a Cast or export the model "
                         "again",
                         operand_name(op.inputs, before->second), name, name_of(other), name_of(type));
    }
  }
  return "";
}

}  // namespace

std::string operand_name(const std::vector<std::string_view>& names, size_t index) {
  const size_t named = std::min(index, names.size() - 1);
  std::string name(names[named]);
  const bool variadic = name.ends_with('*');
  while (name.ends_with('?') || name.ends_with('*')) name.pop_back();
  return variadic ? fmt::format("{}_{}", name, index - named) : name;
}

std::string arity_fault(const std::vector<std::string_view>& inputs, const std::vector<std::string_view>& outputs,
                        const std::vector<AttributeSpec>& attributes, const Node& node) {
  const auto count = static_cast<std::ptrdiff_t>(own_input_count(node));  // what bodies capture is theirs
  const std::vector<ValueId> own(node.inputs.begin(), node.inputs.begin() + count);
  if (auto fault = count_fault("input", inputs, own); !fault.empty()) return fault;
  if (auto fault = count_fault("output", outputs, node.outputs); !fault.empty()) return fault;
  for (const auto& attribute : node.attributes) {
    const bool known = std::any_of(attributes.begin(), attributes.end(),
                                   [&](const AttributeSpec& spec) { return spec.name == attribute.first; });
    if (!known) return fmt::format("it has no attribute '{}'", attribute.first);
  }
  return "";
}

std::string operand_fault(const OpDef& op, const Node& node, const Graph& graph) {
  if (auto fault = arity_fault(op.inputs, op.outputs, op.attributes, node); !fault.empty()) return fault;
  return carried_definition(node) ? "" : type_fault(op, node, graph);  // those have types of their own
}

}  // namespace graft
