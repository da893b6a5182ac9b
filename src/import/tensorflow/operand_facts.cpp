// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/operand_facts.h"

#include <algorithm>

#include "import/tensorflow/element_types.h"
#include "import/tensorflow/graph.pb.h"

namespace graft::tensorflow {
namespace {

using graft_tensorflow::AttrValue;

DType type_named(const FileNode& node, const std::string& name) {
  const AttrValue* attribute = node.attribute(name);
  if (attribute && attribute->value_case() == AttrValue::kType) {
    return element_type(attribute->type()).value_or(DType::kUndefined);
  }
  return element_type_named(name).value_or(DType::kUndefined);
}

/// `T`, `N*T`, `T*`.
struct OperandType {
  std::string type, count;
  bool types_are_listed = false;

  explicit OperandType(std::string text) {
    const size_t star = text.find('*');
    types_are_listed = star == text.size() - 1 && star != std::string::npos;
    if (star != std::string::npos && !types_are_listed) count = text.substr(0, star);
    type = types_are_listed ? text.substr(0, star) : count.empty() ? text : text.substr(star + 1);
  }
};

}  // namespace

Operands operands_of(const FileNode& node, const frontend::Signature* signature, int inputs) {
  Operands made;
  const auto left = [&] { return inputs - static_cast<int>(made.facts.size()); };
  for (const frontend::Parameter& parameter : signature ? signature->parameters : std::vector<frontend::Parameter>{}) {
    if (left() == 0) break;
    const OperandType operand(parameter.type);
    const AttrValue* count = operand.count.empty() ? nullptr : node.attribute(operand.count);
    const AttrValue* types = operand.types_are_listed ? node.attribute(operand.type) : nullptr;
    if (!count && !types) {
      made.facts.push_back({type_named(node, operand.type), parameter.rank});
      made.lists.push_back(-1);
      continue;
    }
    const int64_t stated = count ? count->i() : types->list().type_size();
    const int taken = static_cast<int>(std::clamp<int64_t>(stated, 0, left()));
    for (int i = 0; i < taken; ++i) {
      const DType listed = types ? element_type(types->list().type(i)).value_or(DType::kUndefined) : DType::kUndefined;
      made.facts.push_back({types ? listed : type_named(node, operand.type), parameter.rank});
    }
    made.lists.push_back(taken);
  }
  for (; left() > 0; made.lists.push_back(-1)) made.facts.emplace_back();
  return made;
}

}  // namespace graft::tensorflow
