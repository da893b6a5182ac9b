// SPDX-License-Identifier: Apache-2.0
// Functions that a node runs: as graphs of their own, and in place of the node.
#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "frontend/conversion.h"
#include "graph/infer.h"
#include "graph/insert_graph.h"
#include "graph/symbols.h"

namespace graft::frontend {
namespace {

TensorData integer_data(DType type, const std::optional<Shape>& shape, const std::vector<Size>& elements) {
  std::vector<int64_t> sizes;
  for (const Size& size : shape.value_or(Shape{})) sizes.push_back(size.as_constant().value_or(-1));
  if (!shape || std::ranges::count(sizes, -1) > 0) return {};
  TensorData data = TensorData::zeros(type, sizes);
  if (data.element_count() != std::ssize(elements)) return {};
  for (size_t i = 0; i < elements.size(); ++i) data.write_integer(static_cast<int64_t>(i), elements[i].constant());
  return data;
}

}  // namespace

Given Conversion::given(ValueId value) const {
  const Value& known = graph_.value(value);
  Given made{.type = known.type, .shape = known.shape, .constant = known.constant.value_or(TensorData())};
  const auto content = made.constant ? std::nullopt : known_content(known);
  if (!content) return made;
  if (std::ranges::all_of(*content, &Size::is_constant)) {
    made.constant = integer_data(known.type, known.shape, *content);
  } else {
    made.content = content;
  }
  return made;
}

const ForeignGraph& Conversion::function(std::string_view attribute) const {
  const auto found = node_.bodies.find(attribute);
  if (found == node_.bodies.end()) refuse(fmt::format("its function '{}' is not known", attribute));
  return *found->second;
}

ForeignGraph with_given(const ForeignGraph& function, const std::vector<Given>& given) {
  ForeignGraph made = function;
  std::set<std::string, std::less<>> bound;
  for (size_t i = 0; i < given.size(); ++i) {
    ForeignValue& value = made.values[made.inputs[i]];
    value.type = given[i].type, value.shape = given[i].shape, value.constant = given[i].constant;
    value.list = given[i].list, value.tensor = value.tensor && !given[i].list;
    for (size_t axis = 0; value.shape && axis < value.shape->size(); ++axis) {
      Size& size = (*value.shape)[axis];
      if (!is_named(size)) size = Size::symbol(dimension_symbol(fmt::format("{}_{}", value.name, axis)));
      size.collect_symbols(bound);
    }
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const bool known = given[i].content && std::ranges::all_of(*given[i].content, [&](const Size& size) {
      return size.is_constant() || (is_named(size) && bound.contains(*size.as_symbol()));
    });
    if (known) made.values[made.inputs[i]].content = given[i].content;
  }
  return made;
}

namespace {

ForeignGraph given_function(const Conversion& c, std::string_view attribute, const std::vector<Given>& given) {
  const ForeignGraph& stated = c.function(attribute);
  if (stated.inputs.size() != given.size()) {
    c.refuse(fmt::format("its function '{}' takes {} values, not {}", attribute, stated.inputs.size(), given.size()));
  }
  return with_given(stated, given);
}

/// The first node of a function that stays with the framework, and its reason; or nothing.
std::string why_not(const ForeignGraph& foreign, const Converted& converted, std::string_view attribute) {
  for (size_t n = 0; n < foreign.nodes.size(); ++n) {
    if (converted.reasons[n].empty()) continue;
    return fmt::format("its function '{}' has {} '{}': {}", attribute, foreign.nodes[n].op, foreign.nodes[n].name,
                       converted.reasons[n]);
  }
  return "";
}

}  // namespace

Graph Conversion::body(std::string_view attribute, const std::vector<Given>& given) const {
  const ForeignGraph foreign = given_function(*this, attribute, given);
  Converted made = convert(foreign, converters_);
  const std::string reason = why_not(foreign, made, attribute);
  if (!reason.empty()) refuse(reason);
  if (made.graph.outputs.size() != foreign.outputs.size()) {
    refuse(fmt::format("its function '{}' gives what is no tensor", attribute));
  }
  return std::move(made.graph);
}

Body Conversion::try_body(std::string_view attribute, const std::vector<Given>& given) {
  const ForeignGraph foreign = given_function(*this, attribute, given);
  given_to_bodies_.insert_or_assign(std::string(attribute), given);
  Body made;
  Converted converted = convert_function(foreign, converters_, made.results);
  made.reason = why_not(foreign, converted, attribute);
  const bool missing = std::ranges::any_of(made.results, [](const BodyResult& each) {
    return !each.list && each.value == kNoValue;
  });
  if (missing && made.reason.empty()) made.reason = fmt::format("its function '{}' gives what is no tensor", attribute);
  made.graph = std::move(converted.graph);
  return made;
}

std::vector<ValueId> Conversion::insert(const Graph& function, const std::vector<ValueId>& arguments) {
  const size_t first = graph_.nodes.size();
  std::vector<ValueId> copies = insert_graph(graph_, function, arguments, node_.name);
  for (size_t n = first; n < graph_.nodes.size(); ++n) infer(static_cast<int>(n));  // sizes are those of the arguments
  return copies;
}

std::vector<ValueId> Conversion::call(std::string_view attribute, const std::vector<ValueId>& arguments) {
  std::vector<Given> all;
  std::vector<ValueId> variable;
  for (const ValueId argument : arguments) {
    all.push_back(given(argument));
    if (!all.back().constant) variable.push_back(argument);
  }
  const Graph function = body(attribute, all);
  const std::vector<ValueId> copies = insert(function, variable);
  std::vector<ValueId> results;
  for (const ValueId output : function.outputs) results.push_back(copies[output]);
  return results;
}

}  // namespace graft::frontend
