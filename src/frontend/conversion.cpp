// SPDX-License-Identifier: Apache-2.0
#include "frontend/conversion.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/infer.h"
#include "graph/insert_graph.h"
#include "graph/symbols.h"

namespace graft::frontend {

namespace {

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
    const ValueId value = converted_[reference->value];
    if (value == kNoValue) refuse(fmt::format("its argument '{}' comes from what stays in the framework", name));
    const bool unknown = graph_.value(value).type == DType::kUndefined;
    if (unknown && foreign_.values[reference->value].tensor) {
      refuse(fmt::format("the type of its argument '{}' is unknown", name));
    }
    return value;
  }
  if (const auto* tensor = std::get_if<TensorData>(&argument.is)) return constant(*tensor);
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

std::vector<ValueId> Conversion::tensors(std::string_view name) {
  const Argument& given = argument(name);
  if (const auto* reference = std::get_if<Reference>(&given.is)) {
    if (const auto* elements = list_of(*reference)) return *elements;
  }
  const auto* list = std::get_if<Arguments>(&given.is);
  if (!list) refuse(fmt::format("its argument '{}' is no list of tensors", name));
  std::vector<ValueId> values;
  for (const Argument& each : *list) values.push_back(value_of(each, name));
  return values;
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

const std::vector<ValueId>* Conversion::list_of(Reference value) const {
  const auto found = lists_.find(value.value);
  return found == lists_.end() ? nullptr : &found->second;
}

bool Conversion::is_list(std::string_view name) const {
  const Argument& given = argument(name);
  const auto* reference = std::get_if<Reference>(&given.is);
  return reference ? lists_.contains(reference->value) : std::holds_alternative<Arguments>(given.is);
}

void Conversion::give_list(std::vector<ValueId> elements) {
  if (node_.outputs.size() == 1 && !foreign_.values[node_.outputs[0]].tensor) {
    lists_.insert_or_assign(node_.outputs[0], std::move(elements));
  } else {
    give(std::move(elements));
  }
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
  if (given < -rank || given >= std::max(rank, 1)) refuse(fmt::format("axis {} is outside of {} axes", given, rank));
  return given < 0 ? given + rank : given;
}

ValueId Conversion::constant(TensorData data) { return graph_.add_constant(node_.name, std::move(data)); }

ValueId Conversion::integers_constant(const std::vector<int64_t>& elements) {
  return constant(TensorData::from_values(DType::kInt64, {static_cast<int64_t>(elements.size())}, elements));
}

ValueId Conversion::real_constant(double element, DType type) {
  if (type == DType::kUndefined || kind_of(type) == DTypeKind::kOpaque) refuse("a number among elements that are none");
  TensorData data = TensorData::zeros(type, {});
  data.write_double(0, element);
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

Given Conversion::given(ValueId value) const {
  const Value& known = graph_.value(value);
  return {known.type, known.shape, known.constant.value_or(TensorData())};
}

const ForeignGraph& Conversion::function(std::string_view attribute) const {
  const auto found = node_.bodies.find(attribute);
  if (found == node_.bodies.end()) refuse(fmt::format("its function '{}' is not known", attribute));
  return *found->second;
}

Graph Conversion::body(std::string_view attribute, const std::vector<Given>& given) const {
  ForeignGraph foreign = function(attribute);
  if (foreign.inputs.size() != given.size()) {
    refuse(fmt::format("its function '{}' takes {} values, not {}", attribute, foreign.inputs.size(), given.size()));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    ForeignValue& value = foreign.values[foreign.inputs[i]];
    value.type = given[i].type, value.shape = given[i].shape, value.constant = given[i].constant, value.tensor = true;
    for (size_t axis = 0; value.shape && axis < value.shape->size(); ++axis) {
      Size& size = (*value.shape)[axis];
      const auto symbol = size.as_symbol();
      const bool stays = size.is_constant() || (symbol && !is_reserved_symbol(*symbol));
      if (!stays) size = Size::symbol(dimension_symbol(fmt::format("{}_{}", value.name, axis)));
    }
  }
  Converted made = convert(foreign, converters_);
  for (size_t n = 0; n < foreign.nodes.size(); ++n) {
    if (made.reasons[n].empty()) continue;
    refuse(fmt::format("its function '{}' has {} '{}': {}", attribute, foreign.nodes[n].op, foreign.nodes[n].name,
                       made.reasons[n]));
  }
  if (made.graph.outputs.size() != foreign.outputs.size()) {
    refuse(fmt::format("its function '{}' gives what is no tensor", attribute));
  }
  return std::move(made.graph);
}

std::vector<ValueId> Conversion::call(std::string_view attribute, const std::vector<ValueId>& arguments) {
  std::vector<Given> all;
  std::vector<ValueId> variable;
  for (const ValueId argument : arguments) {
    all.push_back(given(argument));
    if (!all.back().constant) variable.push_back(argument);
  }
  const Graph function = body(attribute, all);
  const size_t first = graph_.nodes.size();
  const std::vector<ValueId> copies = insert_graph(graph_, function, variable, node_.name);
  for (size_t n = first; n < graph_.nodes.size(); ++n) infer(static_cast<int>(n));  // sizes are those of the arguments
  std::vector<ValueId> results;
  for (const ValueId output : function.outputs) results.push_back(copies[output]);
  return results;
}

void Conversion::describe(size_t result, DType type, std::optional<Shape> shape) {
  descriptions_.insert_or_assign(result, Description{type, std::move(shape)});
}

namespace {

/// Takes back what a row that then refused had added.
class Attempt {
 public:
  explicit Attempt(Graph& graph) : graph_(graph), nodes_(graph.nodes.size()) {}
  void undo() {
    std::vector<bool> erased(graph_.nodes.size(), false);
    std::fill(erased.begin() + static_cast<std::ptrdiff_t>(nodes_), erased.end(), true);
    if (nodes_ < erased.size()) graph_.erase_nodes(erased);
  }

 private:
  Graph& graph_;
  size_t nodes_;
};

/// The work of one call of convert().
class Converting {
 public:
  Converting(const ForeignGraph& foreign, const Converters& converters)
      : foreign_(foreign), converters_(converters) {
    result_.graph.name = foreign.name;
    result_.graph.opsets[""] = kOpset;
    result_.reasons.resize(foreign.nodes.size());
    result_.values.assign(foreign.values.size(), kNoValue);
  }

  void take_input(int value) {
    const ForeignValue& given = foreign_.values[value];
    if (result_.values[value] != kNoValue) return;
    const auto described = described_.find(value);
    DType type = given.type;
    std::optional<Shape> shape = given.shape;
    if (described != described_.end()) {
      if (described->second.type != DType::kUndefined) type = described->second.type;
      if (described->second.shape) shape = described->second.shape;
    }
    const ValueId made = result_.graph.add_value(given.name, type, std::move(shape));
    result_.values[value] = made;
    result_.graph.inputs.push_back(made);
  }

  void convert_node(int index) {
    const ForeignNode& node = foreign_.nodes[index];
    visit_references(node, [&](int value) { take_constant(value); });
    const std::vector<Converters::Entry>& rows = converters_.rows_of(node.op);
    std::string& reason = result_.reasons[index];
    if (!node.kept.empty()) {
      reason = node.kept;
      for (const Converters::Entry& each : rows) {
        if (each.origin.empty()) describe(node, each);
      }
    } else if (rows.empty()) {
      reason = fmt::format("there is no converter for {}", node.op);
    } else {
      reason = build(node, rows);
    }
    if (reason.empty()) return;
    for (const int output : node.outputs) {  // what the framework computes comes in, as far as it can be handed over
      if (foreign_.values[output].tensor) take_input(output);
    }
  }

  Converted finish(const std::vector<int>& outputs) {
    for (const int output : outputs) {
      take_constant(output);
      if (result_.values[output] != kNoValue) give(result_.values[output]);
    }
    return std::move(result_);
  }

 private:
  /// Makes it an output. One that is one already (a row gave its operand) is given again under another name.
  void give(ValueId value) {
    Graph& graph = result_.graph;
    if (std::ranges::find(graph.outputs, value) != graph.outputs.end()) {
      const graft::Value like = graph.value(value);
      const ValueId again = graph.add_value(like.name, like.type, like.shape);
      graph.add_node({.name = like.name, .op = "Identity", .inputs = {value}, .outputs = {again}});
      value = again;
    }
    graph.outputs.push_back(value);
  }

  void take_constant(int value) {
    const ForeignValue& given = foreign_.values[value];
    if (result_.values[value] == kNoValue && given.constant) {
      result_.values[value] = result_.graph.add_constant(given.name, given.constant);
    }
  }

  /// What the row of a node that stays tells of results whose sizes the framework does not know.
  void describe(const ForeignNode& node, const Converters::Entry& entry) {
    Attempt attempt(result_.graph);
    Conversion conversion(foreign_, node, entry.signature, result_.graph, result_.values, lists_, converters_);
    try {
      entry.build(conversion);
      for (size_t i = 0; i < conversion.results().size(); ++i) conversion.describe(i, conversion.results()[i]);
    } catch (const Refusal&) {
    }
    attempt.undo();
    for (const auto& [result, description] : conversion.descriptions()) {
      if (result >= node.outputs.size() || foreign_.values[node.outputs[result]].shape) continue;
      described_.insert_or_assign(node.outputs[result], description);
    }
  }

  /// Runs rows until one does not refuse; gives all their reasons otherwise.
  std::string build(const ForeignNode& node, const std::vector<Converters::Entry>& rows) {
    std::string reasons;
    for (const Converters::Entry& each : rows) {
      const std::string reason = build(node, each);
      if (reason.empty()) return "";
      const std::string whose = each.origin.empty() ? "the built-in converter" : "that of " + each.origin;
      reasons += (reasons.empty() ? "" : "; ") + (rows.size() == 1 ? reason : fmt::format("{}: {}", whose, reason));
    }
    return reasons;
  }

  /// Runs a row; gives its refusal.
  std::string build(const ForeignNode& node, const Converters::Entry& entry) {
    Attempt attempt(result_.graph);
    Conversion conversion(foreign_, node, entry.signature, result_.graph, result_.values, lists_, converters_);
    try {
      entry.build(conversion);
      const std::vector<ValueId>& results = conversion.results();
      for (size_t i = 0; i < results.size() && i < node.outputs.size(); ++i) {
        result_.values[node.outputs[i]] = results[i];
      }
      return "";
    } catch (const Refusal& refusal) {
      attempt.undo();
      for (const auto& [result, description] : conversion.descriptions()) {
        if (result < node.outputs.size()) described_.insert_or_assign(node.outputs[result], description);
      }
      return refusal.reason;
    }
  }

  const ForeignGraph& foreign_;
  const Converters& converters_;
  std::map<int, Conversion::Description> described_;  // by foreign value: what rows told that then refused
  Lists lists_;
  Converted result_;
};

}  // namespace

Converted convert(const ForeignGraph& foreign, const std::vector<int>& nodes, const std::vector<int>& inputs,
                  const std::vector<int>& outputs, const Converters& converters) {
  Converting converting(foreign, converters);
  for (const int input : inputs) {
    if (!foreign.values[input].constant) converting.take_input(input);
  }
  for (const int node : nodes) converting.convert_node(node);
  return converting.finish(outputs);
}

Converted convert(const ForeignGraph& foreign, const Converters& converters) {
  std::vector<int> nodes(foreign.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  return convert(foreign, nodes, foreign.inputs, foreign.outputs, converters);
}

}  // namespace graft::frontend
