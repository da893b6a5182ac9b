// SPDX-License-Identifier: Apache-2.0
#include "inputs.h"

#include <deque>
#include <unordered_set>
#include <utility>

#include <torch/csrc/jit/ir/constants.h>

namespace graft::torchscript {
namespace {

namespace jit = torch::jit;

constexpr size_t kMostLooked = 1000;  // values of a graph in which the consumer of an input is looked for

const char* name_of(Input::Kind kind) {
  switch (kind) {
    case Input::Kind::kTensor: return "a tensor";
    case Input::Kind::kTuple: return "a tuple";
    case Input::Kind::kList: return "a list";
    case Input::Kind::kDict: return "a dict";
  }
  return "";
}

[[noreturn]] void refuse_type(const Input& input, const c10::TypePtr& type, const std::string& where) {
  TORCH_CHECK_VALUE(false, "inputs: ", where, " is ", type->repr_str(), ", and ", name_of(input.kind),
                    " is described: give tensors, and tuples, lists and dicts of them");
}

/// Checks that a description fits a type, and gives each range of an axis a name of its own.
void name_ranges(Input& input, const c10::TypePtr& type, const std::string& where, Spec& spec) {
  using Kind = Input::Kind;
  const c10::TypeKind kind = type->kind();
  if (kind == c10::TypeKind::OptionalType) {
    return name_ranges(input, type->expectRef<c10::OptionalType>().getElementType(), where, spec);
  }
  if (input.kind == Kind::kTensor) {
    if (!type->isSubtypeOf(*c10::TensorType::get())) refuse_type(input, type, where);
    for (size_t axis = 0; axis < input.shape.size(); ++axis) {
      Axis& each = input.shape[axis];
      if (each.range) {
        each.dimension = where + "_" + std::to_string(axis);
        spec.dims[each.dimension] = *std::exchange(each.range, std::nullopt);
      }
      if (!each.dimension.empty()) range_of(spec, each.dimension, where);
      TORCH_CHECK_VALUE(!each.dimension.empty() || each.size >= 0, "input ", where, ": a size is ", each.size);
    }
    return;
  }
  const auto part = [&](size_t i) {
    return where + "." + (input.kind == Kind::kDict ? input.keys[i] : std::to_string(i));
  };
  if (kind == c10::TypeKind::TupleType && input.kind == Kind::kTuple) {
    const auto elements = type->expectRef<c10::TupleType>().elements();
    TORCH_CHECK_VALUE(elements.size() == input.elements.size(), "inputs: ", where, " has ", elements.size(),
                      " elements, ", input.elements.size(), " are described");
    for (size_t i = 0; i < elements.size(); ++i) name_ranges(input.elements[i], elements[i], part(i), spec);
    return;
  }
  const bool list = kind == c10::TypeKind::ListType && input.kind == Kind::kList;
  const bool dict = kind == c10::TypeKind::DictType && input.kind == Kind::kDict;
  if (!list && !dict) refuse_type(input, type, where);
  const c10::TypePtr element = list ? type->expectRef<c10::ListType>().getElementType()
                                    : type->expectRef<c10::DictType>().getValueType();
  for (size_t i = 0; i < input.elements.size(); ++i) name_ranges(input.elements[i], element, part(i), spec);
}

/// The type that the operator of a use wants its operand to have: that of its weights.
c10::ScalarType type_of_use(const jit::Use& use) {
  const jit::Node& node = *use.user;
  static const c10::Symbol embedding = c10::Symbol::fromQualString("aten::embedding");
  static const c10::Symbol bag = c10::Symbol::fromQualString("aten::embedding_bag");
  if ((node.kind() == embedding || node.kind() == bag) && use.offset == 1) return c10::ScalarType::Long;
  if (!node.kind().is_aten()) return c10::ScalarType::Undefined;
  for (const jit::Value* other : node.inputs()) {
    const auto constant = jit::toIValue(other);
    if (!constant || !constant->isTensor() || !constant->toTensor().defined()) continue;
    const at::Tensor& weights = constant->toTensor();
    if (weights.dim() > 0 && at::isFloatingType(weights.scalar_type())) return weights.scalar_type();
  }
  return c10::ScalarType::Undefined;
}

/// The type of the first weights that a value, or what becomes of it, meets; Undefined where there are none.
c10::ScalarType first_weights(const jit::Value& input) {
  std::deque<const jit::Value*> waiting = {&input};
  std::unordered_set<const jit::Value*> seen = {&input};
  while (!waiting.empty() && seen.size() < kMostLooked) {
    const jit::Value* value = waiting.front();
    waiting.pop_front();
    for (const jit::Use& use : value->uses()) {
      const c10::ScalarType type = type_of_use(use);
      if (type != c10::ScalarType::Undefined) return type;
      for (const jit::Value* output : use.user->outputs()) {
        if (seen.insert(output).second) waiting.push_back(output);
      }
    }
  }
  return c10::ScalarType::Undefined;
}

void fill_types(Input& input, c10::ScalarType weights, const std::string& where, std::vector<std::string>& warnings) {
  for (Input& element : input.elements) fill_types(element, weights, where, warnings);
  if (input.kind != Input::Kind::kTensor) return;
  if (input.dtype != c10::ScalarType::Undefined) {
    if (weights != c10::ScalarType::Undefined && weights != input.dtype) {
      warnings.push_back(c10::str("input ", where, " is described as ", input.dtype,
                                  ", and the first weights that it meets want ", weights));
    }
    return;
  }
  if (weights == c10::ScalarType::Undefined) {
    warnings.push_back("input " + where +
                       " meets no weights that tell its type: it is taken as Float; state its dtype");
  }
  input.dtype = weights == c10::ScalarType::Undefined ? c10::ScalarType::Float : weights;
}

}  // namespace

const Range& range_of(const Spec& spec, const std::string& dimension, const std::string& where) {
  const auto found = spec.dims.find(dimension);
  TORCH_CHECK_VALUE(found != spec.dims.end(), "input ", where, ": the dimension '", dimension,
                    "' has no range: state its smallest, usual and largest size in dims");
  const Range& range = found->second;
  TORCH_CHECK_VALUE(0 <= range.min && range.min <= range.opt && range.opt <= range.max, "dims: '", dimension, "' is ",
                    range.min, ":", range.opt, ":", range.max, ", which is no smallest, usual and largest size");
  return range;
}

Spec resolve_inputs(const jit::Graph& graph, const Spec& spec, std::vector<std::string>& warnings) {
  TORCH_CHECK_VALUE(graph.inputs().size() > spec.inputs.size(), "inputs: ", spec.method, " takes ",
                    graph.inputs().size() - 1, " arguments, ", spec.inputs.size(), " are described");
  Spec resolved = spec;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const jit::Value& value = *graph.inputs()[i + 1];
    name_ranges(resolved.inputs[i], value.type(), value.debugName(), resolved);
    fill_types(resolved.inputs[i], first_weights(value), value.debugName(), warnings);
  }
  return resolved;
}

c10::IValue value_of(const Input& input, const c10::TypePtr& type,
                     const std::function<at::Tensor(const Input&)>& make) {
  if (type->kind() == c10::TypeKind::OptionalType) {
    return value_of(input, type->expectRef<c10::OptionalType>().getElementType(), make);
  }
  if (input.kind == Input::Kind::kTensor) return make(input);
  if (input.kind == Input::Kind::kTuple) {
    std::vector<c10::IValue> elements;
    for (size_t i = 0; i < input.elements.size(); ++i) {
      elements.push_back(value_of(input.elements[i], type->expectRef<c10::TupleType>().elements()[i], make));
    }
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  if (input.kind == Input::Kind::kList) {
    const c10::TypePtr element = type->expectRef<c10::ListType>().getElementType();
    c10::impl::GenericList list(element);
    for (const Input& each : input.elements) list.push_back(value_of(each, element, make));
    return list;
  }
  const auto& dict_type = type->expectRef<c10::DictType>();
  c10::impl::GenericDict dict(dict_type.getKeyType(), dict_type.getValueType());
  for (size_t i = 0; i < input.elements.size(); ++i) {
    dict.insert(input.keys[i], value_of(input.elements[i], dict_type.getValueType(), make));
  }
  return dict;
}

std::vector<int64_t> sizes_at(const Spec& spec, const Input& input, int64_t Range::*end) {
  std::vector<int64_t> sizes;
  for (const Axis& axis : input.shape) {
    sizes.push_back(axis.dimension.empty() ? axis.size : range_of(spec, axis.dimension, "").*end);
  }
  return sizes;
}

bool has_ranges(const Spec& spec) {
  for (const auto& [name, range] : spec.dims) {
    if (range.min != range.max) return true;
  }
  return false;
}

Input Input::range(const std::vector<int64_t>& min, const std::vector<int64_t>& opt, const std::vector<int64_t>& max,
                   c10::ScalarType dtype) {
  TORCH_CHECK_VALUE(min.size() == opt.size() && opt.size() == max.size(), "Input: the smallest sizes are ", min.size(),
                    ", the usual ones ", opt.size(), ", the largest ", max.size());
  Input made{.shape = {}, .dtype = dtype};
  for (size_t axis = 0; axis < min.size(); ++axis) {
    const bool fixed = min[axis] == max[axis] && min[axis] == opt[axis];
    made.shape.push_back(fixed ? Axis(min[axis]) : Axis(Range{min[axis], opt[axis], max[axis]}));
  }
  return made;
}

Input Input::tuple(std::vector<Input> elements) {
  Input made{.shape = {}};
  made.kind = Kind::kTuple, made.elements = std::move(elements);
  return made;
}

Input Input::list(std::vector<Input> elements) {
  Input made{.shape = {}};
  made.kind = Kind::kList, made.elements = std::move(elements);
  return made;
}

Input Input::dict(std::vector<std::pair<std::string, Input>> elements) {
  Input made{.shape = {}};
  made.kind = Kind::kDict;
  for (auto& [key, element] : elements) made.keys.push_back(key), made.elements.push_back(std::move(element));
  return made;
}

}  // namespace graft::torchscript
