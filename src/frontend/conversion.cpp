// SPDX-License-Identifier: Apache-2.0
#include "frontend/conversion.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/infer.h"

namespace graft::frontend {

namespace {

/// Whether an argument of that name says which elements are meant, whatever they are.
bool chooses(std::string_view name) {
  return name == "index" || name == "indices" || name == "mask" || name == "condition";
}

constexpr size_t kMostUntaken = 1024;  // results that an operator may have although nobody takes them

}  // namespace

const Argument& Conversion::argument(std::string_view name) const {
  const auto named = node_.attributes.find(name);
  if (named != node_.attributes.end()) return named->second;
  const auto& parameters = signature_.parameters;
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const Parameter& each) { return each.name == name; });
  GRAFT_CHECK(found != parameters.end(), fmt::format("the row of {} has no argument '{}'", signature_.op, name));
  const auto position = static_cast<size_t>(found - parameters.begin());
  const bool takes_any = parameters[0].type == "...";  // number of inputs, which then stand for no other argument
  if (position < node_.arguments.size() && !(takes_any && position > 0)) return node_.arguments[position];
  if (!found->has_default) refuse(fmt::format("its argument '{}' is not given", name));
  return found->default_value;
}

ValueId Conversion::value_of(const Argument& argument, std::string_view name) {
  if (argument.is_none()) return kNoValue;
  if (const auto* reference = std::get_if<Reference>(&argument.is)) {
    const auto complex = complexes_.find(reference->value);
    if (complex != complexes_.end()) {
      if (!part_) refuse(fmt::format("its argument '{}' is complex", name));
      return complex->second.**part_;
    }
    if (part_ && foreign_.values[reference->value].tensor && !chooses(name)) {
      refuse(fmt::format("its argument '{}' is real beside complex ones", name));
    }
    const ValueId value = converted_[reference->value];
    if (value == kNoValue) refuse(fmt::format("its argument '{}' comes from what stays in the framework", name));
    const bool unknown = graph_.value(value).type == DType::kUndefined;
    if (unknown && foreign_.values[reference->value].tensor) {
      refuse(fmt::format("the type of its argument '{}' is unknown", name));
    }
    return value;
  }
  if (const auto* tensor = std::get_if<TensorData>(&argument.is)) {
    if (part_ && !chooses(name)) refuse(fmt::format("its argument '{}' is real beside complex ones", name));
    return constant(*tensor);
  }
  if (const auto* integer = std::get_if<int64_t>(&argument.is)) {
    return constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {*integer}));
  }
  if (const auto* real = std::get_if<double>(&argument.is)) return real_constant(*real, DType::kFloat32);
  if (const auto* flag = std::get_if<bool>(&argument.is)) {
    return constant(TensorData::from_values<uint8_t>(DType::kBool, {}, {*flag}));
  }
  refuse(fmt::format("its argument '{}' is no tensor", name));
}

ValueId Conversion::tensor(std::string_view name) {
  const ValueId value = value_of(argument(name), name);
  for (const Parameter& parameter : signature_.parameters) {  // an attribute may have its name, and nothing in it
    const bool needed = parameter.name == name && !parameter.has_default && !parameter.type.ends_with('?');
    if (value == kNoValue && needed && node_.attributes.contains(name)) {
      refuse(fmt::format("its argument '{}' is no tensor", name));
    }
  }
  const bool known = value != kNoValue && graph_.value(value).shape.has_value();
  for (const Parameter& parameter : signature_.parameters) {
    if (!known || !parameter.rank || parameter.name != name || rank_of(value) == *parameter.rank) continue;
    refuse(fmt::format("its argument '{}' has {} axes, not {}", name, rank_of(value), *parameter.rank));
  }
  return value;
}

std::vector<ValueId> Conversion::inputs() {
  std::vector<ValueId> values;
  for (const Argument& each : node_.arguments) values.push_back(value_of(each, "inputs"));
  return values;
}

int64_t Conversion::integer_of(const Argument& argument, std::string_view name) const {
  if (const auto* integer = std::get_if<int64_t>(&argument.is)) return *integer;
  if (const auto* flag = std::get_if<bool>(&argument.is)) return *flag;
  if (const auto* reference = std::get_if<Reference>(&argument.is)) {
    const ValueId value = converted_[reference->value];
    const auto content = value == kNoValue ? std::nullopt : known_content(graph_.value(value));
    if (content && content->size() == 1 && (*content)[0].is_constant()) return (*content)[0].constant();
    refuse(fmt::format("its argument '{}' is known only while running", name));
  }
  refuse(fmt::format("its argument '{}' is no integer", name));
}

std::vector<int64_t> Conversion::integers_of(int foreign_value, std::string_view name) const {
  const ValueId value = converted_[foreign_value];
  const auto content = value == kNoValue ? std::nullopt : known_content(graph_.value(value));
  std::vector<int64_t> elements;
  for (const Size& size : content.value_or(std::vector<Size>{})) {
    if (size.is_constant()) elements.push_back(size.constant());
  }
  if (!content || elements.size() < content->size()) {
    refuse(fmt::format("its argument '{}' is known only while running", name));
  }
  return elements;
}

int64_t Conversion::integer(std::string_view name) const { return integer_of(argument(name), name); }

double Conversion::real(std::string_view name) const {
  const Argument& given = argument(name);
  if (const auto* real = std::get_if<double>(&given.is)) return *real;
  if (const auto* tensor = std::get_if<TensorData>(&given.is); tensor && tensor->element_count() == 1) {
    return tensor->read_double(0);
  }
  if (const auto* reference = std::get_if<Reference>(&given.is)) {
    const TensorData& known = foreign_.values[static_cast<size_t>(reference->value)].constant;
    if (known && known.element_count() == 1 && is_float(known.type())) return known.read_double(0);
  }
  return static_cast<double>(integer_of(given, name));
}

bool Conversion::flag(std::string_view name) const { return integer_of(argument(name), name) != 0; }

std::string Conversion::text(std::string_view name) const {
  if (const auto* text = std::get_if<std::string>(&argument(name).is)) return *text;
  refuse(fmt::format("its argument '{}' is no text", name));
}

DType Conversion::type(std::string_view name) const {
  if (const auto* type = std::get_if<DType>(&argument(name).is)) return *type;
  refuse(fmt::format("its argument '{}' is no element type", name));
}

std::vector<int64_t> Conversion::integers(std::string_view name, size_t count) const {
  const Argument& given = argument(name);
  std::vector<int64_t> elements;
  if (const auto* list = std::get_if<Arguments>(&given.is)) {
    for (const Argument& each : *list) elements.push_back(integer_of(each, name));
  } else if (const auto* tensor = std::get_if<TensorData>(&given.is)) {
    for (int64_t i = 0; i < tensor->element_count(); ++i) elements.push_back(tensor->read_integer(i));
  } else if (const auto* reference = std::get_if<Reference>(&given.is)) {
    elements = integers_of(reference->value, name);
  } else {
    elements.push_back(integer_of(given, name));
  }
  if (elements.size() == 1 && count > 1) elements.assign(count, elements[0]);
  if (count > 0 && elements.size() != count) {
    refuse(fmt::format("its argument '{}' has {} elements, not {}", name, elements.size(), count));
  }
  return elements;
}

bool Conversion::is_number(std::string_view name) const {
  const auto& is = argument(name).is;
  const auto* reference = std::get_if<Reference>(&is);
  if (reference) return !foreign_.values[reference->value].tensor;
  return std::holds_alternative<int64_t>(is) || std::holds_alternative<double>(is) || std::holds_alternative<bool>(is);
}

ValueId Conversion::shape_tensor(std::string_view name) {
  const Argument& given = argument(name);
  const auto* list = std::get_if<Arguments>(&given.is);
  if (!list && !std::holds_alternative<Reference>(given.is)) return integers_constant({integer(name)});
  if (!list) {
    const ValueId value = cast(value_of(given, name), DType::kInt64);
    return rank_of(value) == 0 ? add("Reshape", {value, integers_constant({1})}) : value;
  }
  const bool fixed = std::all_of(list->begin(), list->end(),
                                 [](const Argument& each) { return std::holds_alternative<int64_t>(each.is); });
  if (fixed) return integers_constant(integers(name));
  std::vector<ValueId> parts;
  const ValueId one = integers_constant({1});
  for (const Argument& each : *list) {
    parts.push_back(add("Reshape", {cast(value_of(each, name), DType::kInt64), one}));
  }
  return add("Concat", std::move(parts), {{"axis", int64_t{0}}});
}

const Shape& Conversion::shape_of(ValueId value) const {
  const auto& shape = graph_.value(value).shape;
  if (!shape) refuse(fmt::format("the rank of '{}' is unknown: give shapes of the inputs", graph_.value(value).name));
  return *shape;
}

const Size& Conversion::size_of(ValueId value, int64_t axis) const {
  const Shape& shape = shape_of(value);
  if (axis < 0 || axis >= std::ssize(shape)) {
    refuse(fmt::format("'{}' has {} axes, and none of number {}", graph_.value(value).name, shape.size(), axis));
  }
  return shape[static_cast<size_t>(axis)];
}

int64_t Conversion::sum(int64_t a, int64_t b) const {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) refuse("its sizes overflow 64 bits");
  return result;
}

int64_t Conversion::product(int64_t a, int64_t b) const {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) refuse("its sizes overflow 64 bits");
  return result;
}

int64_t Conversion::axis(int64_t given, int rank) const {
  if (given < -rank || given >= rank) refuse(fmt::format("axis {} is outside of {} axes", given, rank));
  return given < 0 ? given + rank : given;
}

ValueId Conversion::constant(TensorData data) { return graph_.add_constant(node_.name, std::move(data)); }

ValueId Conversion::integers_constant(const std::vector<int64_t>& elements) {
  return constant(TensorData::from_values(DType::kInt64, {static_cast<int64_t>(elements.size())}, elements));
}

ValueId Conversion::real_constant(double element, DType type) {
  if (type == DType::kUndefined || kind_of(type) == DTypeKind::kOpaque) refuse("a number among elements that are none");
  TensorData data = TensorData::zeros(type, {});
  if (type == DType::kComplex64) {
    data.mutable_as<float>()[0] = static_cast<float>(element);
  } else if (type == DType::kComplex128) {
    data.mutable_as<double>()[0] = element;
  } else {
    data.write_double(0, element);
  }
  return constant(std::move(data));
}

std::vector<ValueId> Conversion::add_several(std::string_view op, std::vector<ValueId> inputs, Attributes attributes,
                                             int outputs, std::string_view domain) {
  while (!inputs.empty() && inputs.back() == kNoValue) inputs.pop_back();
  const size_t taken = node_.outputs.size();
  if (outputs < 1 || static_cast<size_t>(outputs) > std::max(kMostUntaken, taken)) {
    refuse(fmt::format("{} results, of which {} are taken", outputs, taken));
  }
  graft::Node added{.name = node_.name,
                    .domain = std::string(domain),
                    .op = std::string(op),
                    .attributes = std::move(attributes),
                    .inputs = std::move(inputs),
                    .outputs = {}};
  for (int i = 0; i < outputs; ++i) added.outputs.push_back(graph_.add_value(node_.name, DType::kUndefined));
  const std::vector<ValueId> results = added.outputs;
  graph_.add_node(std::move(added));
  infer(static_cast<int>(graph_.nodes.size()) - 1);
  return results;
}

void Conversion::infer(int node) {
  try {
    const auto unknown = infer_node(graph_, node);
    if (unknown) refuse(*unknown);
  } catch (const Error& error) {
    refuse(error.message());
  }
}

ValueId Conversion::add(std::string_view op, std::vector<ValueId> inputs, Attributes attributes,
                        std::string_view domain) {
  return add_several(op, std::move(inputs), std::move(attributes), 1, domain)[0];
}

ValueId Conversion::add_described(std::string_view op, std::vector<ValueId> inputs, DType type, Shape shape) {
  const std::string name = fmt::format("{}_{}", node_.name, graph_.nodes.size());
  const ValueId made = graph_.add_value(name, type, std::move(shape));
  graph_.add_node({.name = name, .domain = "", .op = std::string(op), .attributes = {}, .inputs = std::move(inputs),
                   .outputs = {made}});
  return made;
}

ValueId Conversion::cast(ValueId value, DType type) {
  if (type_of(value) == type) return value;
  return add("Cast", {value}, {{"to", int64_t{onnx_code(type)}}});
}

void Conversion::describe(size_t result, DType type, std::optional<Shape> shape) {
  descriptions_.insert_or_assign(result, Description{type, std::move(shape)});
}

}  // namespace graft::frontend
