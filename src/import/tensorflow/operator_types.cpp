// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/operator_types.h"

#include <map>

#include "base/words.h"
#include "import/tensorflow/element_types.h"
#include "import/tensorflow/graph.pb.h"

namespace graft::tensorflow {
namespace {

using enum LowKernels;
using graft_tensorflow::AttrValue;

const std::map<std::string_view, OperatorTypes>& table() {
  static const std::map<std::string_view, OperatorTypes> rows = {
#define GRAFT_TENSORFLOW_TYPES(op, inputs, outputs, low) {#op, {words_of(inputs), words_of(outputs), low}},
#include "import/tensorflow/operator_types.inc"
#undef GRAFT_TENSORFLOW_TYPES
  };
  return rows;
}

/// The type that stands at `index` of a place's list, or alone.
TypedPlace place_of(const FileNode& node, const std::string& name, int index) {
  const AttrValue* attribute = node.attribute(name);
  if (!attribute) return {"", element_type_named(name).value_or(DType::kUndefined)};
  if (attribute->value_case() == AttrValue::kType) {
    return {name, element_type(attribute->type()).value_or(DType::kUndefined)};
  }
  const auto& list = attribute->list();
  if (index >= list.type_size()) return {};
  return {"", element_type(list.type(index)).value_or(DType::kUndefined)};
}

/// One list takes what the single places leave; the rest of a second one is not told.
std::vector<TypedPlace> places_of(const FileNode& node, const std::vector<std::string>& types, size_t count) {
  std::vector<TypedPlace> places;
  for (size_t i = 0; i < types.size() && places.size() < count; ++i) {
    if (!types[i].ends_with('*')) {
      places.push_back(place_of(node, types[i], 0));
      continue;
    }
    const std::string name = types[i].substr(0, types[i].size() - 1);
    const size_t behind = types.size() - i - 1, before = places.size();
    const size_t taken = count > before + behind ? count - before - behind : 0;
    for (size_t k = 0; k < taken; ++k) places.push_back(place_of(node, name, static_cast<int>(k)));
  }
  places.resize(count);
  return places;
}

}  // namespace

bool OperatorTypes::has(DType type) const {
  if (type == DType::kFloat16) return low == kHalf || low == kBoth;
  return type == DType::kBFloat16 && (low == kBrain || low == kBoth);
}

const OperatorTypes* find_operator_types(std::string_view op) {
  const auto row = table().find(op);
  return row == table().end() ? nullptr : &row->second;
}

std::vector<TypedPlace> input_types(const FileNode& node, const OperatorTypes& types, size_t count) {
  return places_of(node, types.inputs, count);
}

std::vector<TypedPlace> output_types(const FileNode& node, const OperatorTypes& types, size_t count) {
  return places_of(node, types.outputs, count);
}

}  // namespace graft::tensorflow
